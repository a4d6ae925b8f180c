package upstream

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/testkit"
)

// vault is a backend over TLS.
type vault struct {
	*backend
	authority *testkit.Authority
	resumed   atomic.Int64 // handshakes that went on with an earlier session
	whole     atomic.Int64 // those that did not
}

// serveTLS starts one whose certificate is for name; change may alter how it speaks.
func serveTLS(t *testing.T, name string, change func(*tls.Config, *testkit.Authority)) *vault {
	t.Helper()
	v := &vault{authority: testkit.NewAuthority(t, "test authority")}
	i := v.authority.Issue(testkit.Wish{Names: []string{name}})
	c := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{i.Leaf.Raw}, PrivateKey: i.Private}}}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if state.DidResume {
			v.resumed.Add(1)
		} else {
			v.whole.Add(1)
		}
		return nil
	}
	if change != nil {
		change(c, v.authority)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.backend = &backend{Listener: tls.NewListener(plain, c)}
	var accepting sync.WaitGroup
	accepting.Go(v.accept)
	t.Cleanup(func() {
		v.Close()
		accepting.Wait()
		v.hangUp(t, 0)
		v.ended.Wait()
	})
	return v
}

func (v *vault) url() string { return "https://" + v.Addr().String() }

// trusting is how a farm meets the vault's server.
func (v *vault) trusting() *tls.Config {
	return &tls.Config{RootCAs: v.authority.Pool(), NextProtos: []string{"http/1.1"}}
}

// A connection over TLS is kept and used again; the next one resumes its session.
func TestSecureConnections(t *testing.T) {
	for _, most := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		v := serveTLS(t, "127.0.0.1", func(c *tls.Config, _ *testkit.Authority) {
			c.MaxVersion, c.NextProtos = most, []string{"h2", "http/1.1"}
		})
		n := newSecureNode(t, 1, farmOf(v.url(), nil), v.trusting())
		first, how := n.borrow(t, 0)
		mustCome(t, "the first", how, New)
		n.task(t, 0, func(*Pool) { ask(t, first, "hello") })
		n.give(t, 0, first)
		n.mustHold(t, 1, 1) // a ticket that comes now is no word out of turn
		c, how := n.borrow(t, 0)
		mustCome(t, "the second", how, Reused)
		n.task(t, 0, func(*Pool) { ask(t, c, "hello again") })
		other, how := n.borrow(t, 0)
		mustCome(t, "one beside it", how, New)
		n.task(t, 0, func(*Pool) { ask(t, other, "hello") })
		if other.Protocol() != "http/1.1" {
			t.Errorf("the server speaks %q", other.Protocol())
		}
		if v.whole.Load() != 1 || v.resumed.Load() != 1 {
			t.Errorf("TLS %x: %d whole handshakes and %d resumed", most, v.whole.Load(), v.resumed.Load())
		}
		n.give(t, 0, c)
		n.give(t, 0, other)
		n.mustHold(t, 2, 2)
		v.hangUp(t, 2)
		n.until(t, 0, "both are gone", func(*Pool) bool { return n.server.open.Load() == 0 })
		n.mustHold(t, 0, 0)
	}
}

// Who cannot prove that it is the server gets nothing, and the error says why.
func TestNoTLSWithAServer(t *testing.T) {
	stranger := testkit.NewAuthority(t, "stranger")
	for _, tc := range []struct {
		name   string
		serve  string // what the certificate is for
		server func(c *tls.Config, a *testkit.Authority)
		farm   func(f *config.Farm)
		client func(c *tls.Config)
		words  string
	}{
		{name: "another host", serve: "192.0.2.1", words: "certificate is valid for 192.0.2.1, not 127.0.0.1"},
		{name: "another name", serve: "127.0.0.1", farm: func(f *config.Farm) { f.TLS = &config.FarmTLS{Name: "app.test"} }, words: "app.test"},
		{name: "an unknown authority", serve: "127.0.0.1", client: func(c *tls.Config) { c.RootCAs = stranger.Pool() }, words: "unknown authority"},
		{name: "expired", serve: "127.0.0.1", server: func(c *tls.Config, a *testkit.Authority) {
			i := a.Issue(testkit.Wish{Names: []string{"127.0.0.1"}, From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)})
			c.Certificates = []tls.Certificate{{Certificate: [][]byte{i.Leaf.Raw}, PrivateKey: i.Private}}
		}, words: "expired"},
		{name: "it wants a certificate", serve: "127.0.0.1", server: func(c *tls.Config, a *testkit.Authority) {
			c.ClientAuth, c.ClientCAs, c.MaxVersion = tls.RequireAndVerifyClientCert, a.Pool(), tls.VersionTLS12 // TLS 1.3 tells it later
		}, words: "handshake failure"},
		{name: "too old", serve: "127.0.0.1", server: func(c *tls.Config, _ *testkit.Authority) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		},
			words: "protocol version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := serveTLS(t, tc.serve, tc.server)
			client := v.trusting()
			client.MinVersion = tls.VersionTLS12
			if tc.client != nil {
				tc.client(client)
			}
			n := newSecureNode(t, 1, farmOf(v.url(), tc.farm), client)
			n.mustNotBorrow(t, v.url(), tc.words)
		})
	}
}

// In TLS 1.3 a server tells only after the handshake that it wants a certificate.
func TestRefusedAfterTheHandshake(t *testing.T) {
	v := serveTLS(t, "127.0.0.1", func(c *tls.Config, a *testkit.Authority) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
	})
	n := newSecureNode(t, 1, farmOf(v.url(), nil), v.trusting())
	c, _ := n.borrow(t, 0)
	n.task(t, 0, func(p *Pool) {
		_, err := c.Read(make([]byte, 1))
		var handshake *HandshakeError
		if err = c.Refused(err); !errors.As(err, &handshake) || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("error %v", err)
		}
		if got := c.Refused(io.EOF); got != io.EOF {
			t.Errorf("the end of the connection is %v", got)
		}
		p.Discard(c)
	})
}

// mustNotBorrow expects a handshake to fail with these words.
func (n *node) mustNotBorrow(t *testing.T, url, words string) {
	t.Helper()
	n.task(t, 0, func(p *Pool) {
		_, _, err := p.Borrow(n.server, false)
		var handshake *HandshakeError
		if !errors.As(err, &handshake) || handshake.Server != url || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), url) {
			t.Errorf("error %v, want %q of %s", err, words, url)
		}
	})
	n.mustHold(t, 0, 0)
	if n.stats[0].ConnectFails.Load() != 1 || n.stats[0].Connects.Load() != 0 {
		t.Errorf("%d failures and %d connections are counted", n.stats[0].ConnectFails.Load(), n.stats[0].Connects.Load())
	}
}

// A server without a word of TLS, and one without a word, are told apart.
func TestServersThatSpeakNoTLS(t *testing.T) {
	answers := func(text string) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var ended sync.WaitGroup
		ended.Go(func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, text)
			io.Copy(io.Discard, c)
		})
		t.Cleanup(func() { ln.Close(); ended.Wait() })
		return "https://" + ln.Addr().String()
	}
	t.Run("HTTP", func(t *testing.T) {
		url := answers("HTTP/1.1 400 Bad Request\r\n\r\n")
		newSecureNode(t, 1, farmOf(url, nil), &tls.Config{}).mustNotBorrow(t, url, `it answers with something else ("HTTP/")`)
	})
	t.Run("silence", func(t *testing.T) {
		url := answers("")
		n := newSecureNode(t, 1, farmOf(url, func(f *config.Farm) { f.Timeouts.Connect = config.Duration(50 * time.Millisecond) }), &tls.Config{})
		n.task(t, 0, func(p *Pool) {
			if _, _, err := p.Borrow(n.server, false); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("error %v, want that time is over", err)
			}
		})
	})
	t.Run("nobody is trusted unless it is said who", func(t *testing.T) {
		v := serveTLS(t, "127.0.0.1", nil)
		newSecureNode(t, 1, farmOf(v.url(), nil), nil).mustNotBorrow(t, v.url(), "unknown authority")
	})
}

// A connection over TLS stays on its loop: a sibling opens its own, and if there may be
// no other, the first is closed for it.
func TestSecureConnectionsDoNotMove(t *testing.T) {
	v := serveTLS(t, "127.0.0.1", nil)
	n := newSecureNode(t, 2, limited(v.url(), 2, patience), v.trusting())
	c, _ := n.borrow(t, 0)
	n.give(t, 0, c)
	other, how := n.borrow(t, 1)
	mustCome(t, "the sibling's", how, New)
	again, how := n.borrow(t, 0)
	mustCome(t, "the first again", how, Reused)

	var waited How
	done := n.waiting(t, 1, &waited)
	n.give(t, 0, again)
	await(t, done)
	mustCome(t, "the waiting one's", waited, New)
	n.give(t, 1, other)
	n.until(t, 1, "all are idle", func(p *Pool) bool { return len(p.at(n.server.State).idle) == 2 })
	n.mustHold(t, 2, 2)
}

// What a server must prove belongs to its state: with other pins it is another server,
// with the same its connections stay; files that are read anew change no connection.
func TestReloadOfSecurity(t *testing.T) {
	servers := newServers(noNames)
	t.Cleanup(servers.Close)
	farm := farmOf("https://192.0.2.1", nil)
	apply := func(wish *config.FarmTLS) (*State, []*State) {
		farm.TLS = wish
		farms, gone := servers.Apply(&config.Config{Farms: config.Farms{farm}}, slots{}.of)
		return farms[0].Servers[0].State, gone
	}
	first, _ := apply(nil)
	if same, gone := apply(&config.FarmTLS{}); same != first || len(gone) != 0 {
		t.Error("the server has changed, although it is met as before")
	}
	second, gone := apply(&config.FarmTLS{Pins: []string{"a"}})
	if second == first || len(gone) != 1 || gone[0] != first {
		t.Error("the server is still trusted as it was")
	}
	if name := second.security.Load().config.ServerName; name != "192.0.2.1" {
		t.Errorf("it is asked for %q", name)
	}
	servers.Renew(&config.Config{Farms: config.Farms{farm}}, []*tls.Config{{NextProtos: []string{"new"}}})
	if got := second.security.Load().config; got.NextProtos[0] != "new" || got.ServerName != "192.0.2.1" {
		t.Error("new files are not used")
	}
	if third, _ := apply(&config.FarmTLS{Pins: []string{"a"}}); third != second {
		t.Error("the server has changed with its files")
	}
}
