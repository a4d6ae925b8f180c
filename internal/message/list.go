package message

// NextToken takes the first element off a comma-separated list (RFC 9110 5.6.1);
// empty elements are passed over. It returns nil when the list is at its end.
func NextToken(list []byte) (token, rest []byte) {
	for len(list) > 0 {
		end := 0
		for end < len(list) && list[end] != ',' {
			end++
		}
		token, list = Trim(list[:end]), list[min(end+1, len(list)):]
		if len(token) > 0 {
			return token, list
		}
	}
	return nil, nil
}

// Trim takes spaces and tabs off both ends (OWS, RFC 9110 5.6.3).
func Trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
