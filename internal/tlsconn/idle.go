package tlsconn

import "sluice/internal/reactor"

// Idle implements reactor.Stream: the connection keeps no buffer, and job runs when
// a Read has something to deliver, not before.
func (s *Stream) Idle(job reactor.Job) bool {
	if s.waits {
		return s.sock.Idle(job)
	}
	s.job, s.resting = job, job != nil
	switch {
	case job == nil:
		s.sock.Idle(nil)
	case s.Ready():
		s.sock.Start((*waker)(s))
	default:
		s.rest()
		s.sock.Idle((*waker)(s))
	}
	return true
}

// Watch implements reactor.Stream. The end of the connection below is what it sees,
// since bytes stay where they are.
func (s *Stream) Watch(job reactor.Job) bool {
	if job != nil && !s.waits {
		if s.Ended() {
			s.sock.Start(job)
			return true
		}
		s.setAside()
	}
	return s.sock.Watch(job)
}

// rest lets go of buffers.
func (s *Stream) rest() {
	s.setAside()
	s.trim(keptBytes)
}

// waker is a Stream whose socket has something while nobody reads.
type waker Stream

// Run runs the job if a Read would not wait, or has waited for too long.
func (w *waker) Run() {
	s := (*Stream)(w)
	switch {
	case !s.resting: // it was taken back in this very turn
	case s.Ready() || s.sock.Late():
		s.resting = false
		s.sock.Idle(nil)
		s.job.Run()
	default:
		s.rest()
		s.sock.Idle(w)
	}
}

// Abandon is told when the job has panicked.
func (w *waker) Abandon() {
	if job, ok := w.job.(interface{ Abandon() }); ok {
		job.Abandon()
	}
}
