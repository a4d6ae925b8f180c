package secure

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
)

// TestMake shakes hands with each certificate, from the two files and from the one.
func TestMake(t *testing.T) {
	all, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key       Key
		algorithm string
	}{{P256, "ECDSA"}, {RSA2048, "RSA"}} {
		cert := all[c.key]
		for _, files := range [][2]string{{cert.Cert, cert.Key}, {cert.Both, cert.Both}} {
			pair, err := tls.LoadX509KeyPair(files[0], files[1])
			if err != nil {
				t.Fatal(err)
			}
			state, err := shake(&tls.Config{Certificates: []tls.Certificate{pair}}, cert.Client())
			if err != nil {
				t.Fatalf("%s: %v", c.key, err)
			}
			got := state.PeerCertificates[0].PublicKeyAlgorithm.String()
			if got != c.algorithm || state.Version != tls.VersionTLS13 || state.CurveID != tls.X25519 {
				t.Errorf("%s: a key of %s, version %x, key exchange %v", c.key, got, state.Version, state.CurveID)
			}
		}
	}
}

// TestClient: what is not agreed upon is refused.
func TestClient(t *testing.T) {
	all, err := Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(all[P256].Cert, all[P256].Key)
	if err != nil {
		t.Fatal(err)
	}
	server := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{pair}}
		change(c)
		return c
	}
	for _, c := range []struct {
		name   string
		server *tls.Config
		client Key
		want   string
	}{
		{"another version", server(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), P256, "protocol version"},
		{"another key exchange", server(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }), P256, "handshake failure"},
		{"another certificate", server(func(*tls.Config) {}), RSA2048, "unknown authority"},
	} {
		_, err := shake(c.server, all[c.client].Client())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// shake is the client's view of a handshake.
func shake(server, client *tls.Config) (tls.ConnectionState, error) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer listener.Close()
	go serve(listener)
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

// serve shakes hands with one client and waits until it has gone.
func serve(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	io.Copy(io.Discard, conn)
}
