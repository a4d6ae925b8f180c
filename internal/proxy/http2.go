package proxy

// upgrade has the connection go on as HTTP/2, of which in holds the beginning.
func (s *session) upgrade(in *buffer) {
	s.proxy.buffers.put(in)
	s.shut(false)
	s.end()
}
