package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// told is what tests read of a result in JSON.
type told struct {
	Protocol string `json:"protocol"`
	Streams  int    `json:"streams_per_connection"`
	Total    struct {
		Good     int              `json:"good"`
		Errors   int              `json:"errors"`
		Connects int              `json:"connections_opened"`
		Reopened int              `json:"connections_closed_while_idle"`
		Failures map[string]int64 `json:"failures"`
		TLS      *struct {
			Handshakes int              `json:"handshakes"`
			Resumed    int              `json:"resumed"`
			Sessions   map[string]int64 `json:"sessions"`
		} `json:"tls"`
	} `json:"total"`
}

// tell runs a command line and reads its result.
func tell(t *testing.T, args ...string) (r told) {
	t.Helper()
	// A slow machine takes seconds to find that nobody vouches for a certificate.
	code, stdout, stderr := command(append([]string{"--json", "-", "--connect-timeout", "60s"}, args...)...)
	if code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// certificate makes one that vouches for itself, as files of PEM.
func certificate(t *testing.T) (cert, key string) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"shop.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// secureServer is net/http's, with TLS, HTTP/1.1 and HTTP/2. It wants any
// certificate of clients that ask for /own.
func secureServer(t *testing.T, cert, key string) (url string) {
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/own" && len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	url := secureServer(t, cert, key)
	for _, c := range []struct {
		flags             string
		good              int // of 6
		connects, resumed int
		session           string // part of what each handshake came to
	}{
		{"-k", 6, 1, 0, "TLS 1.3, TLS_"},
		{"-k --no-keep-alive", 6, 6, 5, "X25519MLKEM768"},
		{"-k --no-keep-alive --resume off", 6, 6, 0, "TLS 1.3, TLS_"},
		{"-k --no-keep-alive --tls-max 1.2", 6, 6, 5, "TLS 1.2, TLS_ECDHE_ECDSA_WITH_"},
		{"-k --http2 --no-keep-alive", 6, 6, 5, "TLS 1.3, TLS_"},
		{"-k --http2 --streams 3", 6, 1, 0, "TLS 1.3, TLS_"},
		{"-k --curves P-256", 6, 1, 0, ", P-256"},
		{"--cacert " + cert, 6, 1, 0, "TLS 1.3"},
		{"--cacert " + cert + " --sni shop.example", 6, 1, 0, "TLS 1.3"},
		{"--cacert " + cert + " --sni else.example", 0, 0, 0, ""},
		{"", 0, 0, 0, ""}, // nobody vouches for the certificate
	} {
		r := tell(t, append(strings.Fields(c.flags), "-n", "6", "-u", "1", url)...)
		if r.Total.Good != c.good || r.Total.Connects != c.connects || int(r.Total.Failures["TLS"]) != 6-c.good {
			t.Errorf("%s: %+v", c.flags, r.Total)
		}
		if r.Total.TLS == nil {
			if c.connects > 0 {
				t.Errorf("%s: no handshakes", c.flags)
			}
			continue
		}
		if r.Total.TLS.Handshakes != c.connects || r.Total.TLS.Resumed != c.resumed {
			t.Errorf("%s: %+v", c.flags, r.Total.TLS)
		}
		for session := range r.Total.TLS.Sessions {
			if !strings.Contains(session, c.session) {
				t.Errorf("%s: %s", c.flags, session)
			}
		}
	}
	without, with := tell(t, "-k", "-n", "1", url+"/own"), tell(t, "-k", "-n", "1", "--cert", cert, "--key", key, url+"/own")
	if without.Total.Good != 0 || with.Total.Good != 1 {
		t.Errorf("the client's certificate: %d good without, %d with", without.Total.Good, with.Total.Good)
	}
}

// nginx runs a real one that speaks HTTP/2 without and with TLS. It gets sockets
// that listen already: no port is lost to another, and nobody waits for its start.
func nginx(t *testing.T) (plain, secure string) {
	cert, key := certificate(t)
	dir := t.TempDir()
	var ports []int
	cmd := exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "conf"), "-e", filepath.Join(dir, "errors"))
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	config := fmt.Sprintf(`daemon off; pid pid; events {}
http {
	access_log off; keepalive_requests 20;
	client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
	ssl_certificate %s; ssl_certificate_key %s;
	server {
		listen 127.0.0.1:%d http2; listen 127.0.0.1:%d ssl http2;
		location / { return 200 "$server_protocol"; }
		location /fail { return 503; }
	}
}`, cert, key, ports[0], ports[1])
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "NGINX=3;4;")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if text, _ := os.ReadFile(filepath.Join(dir, "errors")); t.Failed() {
			t.Logf("nginx: %s", text)
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("https://127.0.0.1:%d", ports[1])
}

// nginx ends each connection after 20 requests, by GOAWAY: none is lost by that.
func TestNginx(t *testing.T) {
	plain, secure := nginx(t)
	for _, c := range []struct {
		flags    string
		protocol string
	}{
		{"--http2 " + plain, "HTTP/2"},
		{"--http2 -m 8 " + plain, "HTTP/2"},
		{"--http2 -m 200 " + plain, "HTTP/2"}, // more than it allows
		{"--http2 -m 8 -k " + secure, "HTTP/2"},
		{"--http2 -m 8 -k --rate 2000 " + secure, "HTTP/2"},
		{"--http2 --no-keep-alive -k " + secure, "HTTP/2"},
		{"--http1 -k " + secure, "HTTP/1.1"},
		{"-k " + secure, "HTTP/1.1"},
	} {
		r := tell(t, append(strings.Fields(c.flags), "-n", "400", "-u", "3")...)
		if r.Protocol != c.protocol || r.Total.Good != 400 || r.Total.Errors != 0 || r.Total.Connects < 400/20 {
			t.Errorf("%s: %+v", c.flags, r)
		}
	}
	if r := tell(t, "--http2", "-m", "8", "-n", "100", plain+"/fail"); r.Total.Good != 0 || r.Total.Errors != 100 || len(r.Total.Failures) != 0 {
		t.Errorf("%+v", r)
	}
	if r := tell(t, "-n", "5", plain); r.Total.Errors != 5 {
		t.Errorf("HTTP/1.1 to a server of HTTP/2 alone: %+v", r)
	}
}

// quicServer is quic-go's, on the loopback interface.
func quicServer(t *testing.T) (url string) {
	cert, key := certificate(t)
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	server := &http3.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/fail" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(socket) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
		socket.Close()
	})
	return "https://" + socket.LocalAddr().String() + "/"
}

// Every load shape goes over HTTP/3.
func TestHTTP3(t *testing.T) {
	url := quicServer(t)
	for _, c := range []struct {
		flags             string
		good              int // at least
		connects, resumed int // at most, and at least 1; with one user just as many
	}{
		{"-n 400 -u 3 -m 8", 400, 3, 0},
		{"-n 400 -u 1 -m 150", 400, 1, 0}, // more than it allows
		{"-n 50 -u 1 --rate 2000", 50, 1, 0},
		{"-n 20 -u 1 --no-keep-alive", 20, 20, 19},
		{"-n 20 -u 1 --no-keep-alive --resume off", 20, 20, 0},
		{"-u 1..3 --step 1 --every 100ms -m 2 --cookies", 1, 3, 0},
	} {
		r := tell(t, append(strings.Fields(c.flags), "--http3", "-k", "--curves", "X25519", url)...)
		if r.Protocol != "HTTP/3" || r.Total.Good < c.good || r.Total.Errors != 0 ||
			r.Total.Connects > c.connects || r.Total.Connects < c.connects && strings.Contains(c.flags, "-u 1 ") {
			t.Errorf("%s: %+v", c.flags, r)
		}
		all := r.Total.TLS
		if all == nil || all.Handshakes != r.Total.Connects || all.Resumed != c.resumed {
			t.Fatalf("%s: %+v", c.flags, all)
		}
		for session := range all.Sessions {
			if !strings.HasPrefix(session, "TLS 1.3, ") || !strings.HasSuffix(session, ", X25519") {
				t.Errorf("%s: %s", c.flags, session)
			}
		}
	}
	if r := tell(t, "--http3", "-k", "-n", "5", url+"fail"); r.Total.Good != 0 || r.Total.Errors != 5 || len(r.Total.Failures) != 0 {
		t.Errorf("%+v", r)
	}
	if r := tell(t, "--http3", "-n", "2", "-u", "1", url); r.Total.Failures["TLS"] != 2 {
		t.Errorf("nobody vouches for the certificate: %+v", r)
	}
}
