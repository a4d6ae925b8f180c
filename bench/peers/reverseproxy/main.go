// Reverseproxy is net/http/httputil.ReverseProxy as a program: what a Go
// programmer gets from the standard library, for comparison.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to listen on")
	to := flag.String("to", "", "backend `URLs`, separated by commas")
	cert := flag.String("cert", "", "certificate `file`; with it, TLS 1.3 is spoken")
	key := flag.String("key", "", "`file` of its key")
	protocol := flag.String("protocol", "http1", "over TLS: http1, or http2 beside it")
	flag.Parse()
	proxy, err := newProxy(strings.Split(*to, ","), port(*listen))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: proxy, IdleTimeout: 10 * time.Minute}
	if *cert == "" {
		log.Fatal(server.ListenAndServe())
	}
	secure(server, *protocol)
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}

// secure sets what is agreed upon for all peers.
func secure(server *http.Server, protocol string) {
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(protocol == "http2")
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// newProxy passes requests to the backends in turn, with the same headers as the
// other proxies of the benchmark.
func newProxy(to []string, port string) (*httputil.ReverseProxy, error) {
	var backends []*url.URL
	for _, s := range to {
		u, err := url.Parse(s)
		if err != nil {
			return nil, err
		}
		backends = append(backends, u)
	}
	var turn atomic.Uint64
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backends[turn.Add(1)%uint64(len(backends))])
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Port", port)
			r.Out.Header.Set("Via", "1.1 reverseproxy")
			r.Out.Header.Set("X-Request-Id", fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
		},
		Transport: &http.Transport{
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     10 * time.Minute,
			DisableCompression:  true,
		},
		BufferPool: &buffers{},
	}, nil
}

// buffers lends the 32 KiB that ReverseProxy copies bodies with.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
