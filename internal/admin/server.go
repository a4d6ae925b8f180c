package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"sluice/internal/config"
)

// Bounds of one admin connection. The write bound leaves room for a CPU profile
// of 30 s, which is what pprof takes unless asked otherwise.
const (
	headTimeout   = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 2 * time.Minute
	idleTimeout   = time.Minute
	maxHead       = 16 << 10        // bytes
	farewellLimit = 2 * time.Second // answers in progress on an address that was left, or at the end
)

// Server answers on the admin address of the configuration.
type Server struct {
	handler http.Handler   // immutable
	stop    func()         // ends the sampler; immutable
	running sync.WaitGroup // sampler, one per address for serving, one per address left

	mu      sync.Mutex
	address string // as configured; "off" if none. guarded by mu
	current *endpoint
}

// endpoint is one address being served.
type endpoint struct {
	listener net.Listener
	http     *http.Server
}

// Serve opens the admin address of view.Config() and answers on it until Close.
// With admin.listen "off" it opens none, until Apply brings one. The error names
// the address and says what can be done.
func Serve(view View) (*Server, error) {
	ctx, stop := context.WithCancel(context.Background())
	samples := newSampler(view)
	s := &Server{handler: handler(view, samples), stop: stop, address: "off"}
	if err := s.Apply(view.Config()); err != nil {
		stop()
		return nil, err
	}
	s.running.Go(func() { samples.run(ctx) })
	return s, nil
}

// Apply follows a new configuration. The new address is opened before the old one
// is left; if that fails, the old one stays and the error says why.
func (s *Server) Apply(cfg *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cfg.Admin.Listen == s.address {
		return nil
	}
	if cfg.Admin.Listen == "off" {
		s.leave()
		s.address = "off"
		return nil
	}
	next, err := open(cfg.Admin.Listen)
	if errors.Is(err, syscall.EADDRINUSE) && s.current != nil {
		return s.displace(cfg.Admin.Listen)
	}
	if err != nil {
		return err
	}
	s.leave()
	s.serve(next)
	s.address = cfg.Admin.Listen
	return nil
}

// displace moves to an address that was found in use. It may be the old address
// that is in the way, as 127.0.0.1:9900 is in that of :9900; then the old one must
// go first, and comes back if it was somebody else after all. mu is held.
func (s *Server) displace(address string) error {
	s.leave()
	next, err := open(address)
	if err == nil {
		s.serve(next)
		s.address = address
		return nil
	}
	if back, backErr := open(s.address); backErr == nil {
		s.serve(back)
	} else {
		s.address = "off"
		err = errors.Join(err, backErr)
	}
	return err
}

// serve answers on l. mu is held.
func (s *Server) serve(l net.Listener) {
	e := &endpoint{listener: l, http: &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}}
	s.current = e
	s.running.Go(func() {
		if err := e.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			slog.Error("admin interface ended", "address", l.Addr().String(), "error", err)
		}
	})
}

// leave ends the address in use. mu is held. It does not wait, since the request
// in progress may be the very reload that moves the address; what it began is
// waited for by Close.
func (s *Server) leave() {
	e := s.current
	if e == nil {
		return
	}
	s.current = nil
	e.listener.Close() // now, so that a next Apply may come back to this address
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), farewellLimit)
		defer cancel()
		if e.http.Shutdown(ctx) != nil {
			e.http.Close()
		}
	})
}

// Addr is the address in use, with the port that the kernel chose for port 0; nil
// if there is none.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	return s.current.listener.Addr()
}

// Close ends the server and returns when all that it started has ended, within
// farewellLimit.
func (s *Server) Close() {
	s.mu.Lock()
	s.leave()
	s.address = "off"
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}
