package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// nginx is a real nginx that serves, and stores, the files of a directory.
type nginx struct {
	root string // what it serves
	url  string
}

const nginxConf = `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
	access_log off;
	client_max_body_size 0;
	client_body_temp_path body;
	proxy_temp_path a;
	fastcgi_temp_path b;
	uwsgi_temp_path c;
	scgi_temp_path d;
	default_type text/plain;
	server {
		listen %s;
		%s
		root root;
		location / {
			dav_methods PUT DELETE;
			gzip on;
			gzip_types *;
			gzip_proxied any;
			gzip_min_length 0;
		}
	}
}
`

// startNginx starts nginx on a port of the loopback interface.
func startNginx(t testing.TB) *nginx {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
	n := &nginx{url: "http://" + address}
	n.start(t, "tcp", address, "")
	return n
}

// startSecureNginx starts nginx over TLS, with further directives for it.
func startSecureNginx(t testing.TB, cert testkit.Issued, directives string) *nginx {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
	n := &nginx{url: "https://" + address}
	both := testkit.WriteFile(t, shortDir(t), "both.pem", cert.Both())
	n.start(t, "tcp", address, fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.2 TLSv1.3; %s", both, both, directives))
	return n
}

// startNginxOnUnix starts nginx on a Unix socket.
func startNginxOnUnix(t testing.TB) *nginx {
	t.Helper()
	path := filepath.Join(shortDir(t), "nginx.sock")
	n := &nginx{url: "http+unix://" + path}
	n.start(t, "unix", path, "")
	return n
}

// start returns when nginx serves.
func (n *nginx) start(t testing.TB, network, address, secure string) {
	t.Helper()
	dir := shortDir(t)
	n.root = filepath.Join(dir, "root")
	if err := os.Mkdir(n.root, 0o755); err != nil {
		t.Fatal(err)
	}
	conf, listen := filepath.Join(dir, "nginx.conf"), address
	if network == "unix" {
		listen = "unix:" + address
	}
	if secure != "" {
		listen += " ssl http2"
	}
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, listen, secure), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, testkit.Command{Path: testkit.Tool(t, "nginx"), Args: []string{"-p", dir, "-c", conf}})
	testkit.Eventually(t, "nginx answers", func() bool { return answers(network, address) })
}

// answers reports whether there is an HTTP server at an address.
func answers(network, address string) bool {
	conn, err := net.Dial(network, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, "HEAD / HTTP/1.0\r\n\r\n")
	answer, err := io.ReadAll(conn)
	return err == nil && strings.HasPrefix(string(answer), "HTTP/1.")
}

// store makes a file that nginx serves.
func (n *nginx) store(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.root, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// stored is a file that nginx has stored.
func (n *nginx) stored(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(n.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
