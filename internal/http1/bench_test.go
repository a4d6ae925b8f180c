package http1

import (
	"strings"
	"testing"

	"sluice/internal/message"
)

// The heads that the parser is measured with, as their senders write them.
var (
	wrkHead    = wire("GET / HTTP/1.1", "Host: 127.0.0.1:8080", "Connection: keep-alive", "Accept: */*")
	curlHead   = wire("GET /index.html HTTP/1.1", "Host: www.example.com", "User-Agent: curl/8.14.1", "Accept: */*")
	chromeHead = wire("GET /api/v1/orders/4711?expand=items&lang=en HTTP/1.1",
		"Host: shop.example.com",
		"Connection: keep-alive",
		"Cache-Control: max-age=0",
		`sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"`,
		"sec-ch-ua-mobile: ?0",
		`sec-ch-ua-platform: "Linux"`,
		"Upgrade-Insecure-Requests: 1",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
		"Sec-Fetch-Site: same-origin",
		"Sec-Fetch-Mode: navigate",
		"Sec-Fetch-Dest: document",
		"Accept-Encoding: gzip, deflate, br, zstd",
		"Accept-Language: en-GB,en;q=0.9,de;q=0.8",
		"Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=1")
	nginxHead = wire("HTTP/1.1 200 OK", "Server: nginx/1.26.3", "Date: Fri, 21 Nov 2025 00:00:00 GMT",
		"Content-Type: text/plain", "Content-Length: 53", "Last-Modified: Thu, 20 Nov 2025 23:00:00 GMT",
		"Connection: keep-alive", `ETag: "691f9d70-35"`, "Accept-Ranges: bytes")
	tomcatHead = wire("HTTP/1.1 200 ", "Set-Cookie: JSESSIONID=5F2C0A9E7B1D4C83; Path=/app; HttpOnly",
		"Content-Type: application/json;charset=UTF-8", "Transfer-Encoding: chunked",
		"Date: Fri, 21 Nov 2025 00:00:00 GMT", "Keep-Alive: timeout=20", "Connection: keep-alive")
)

// wire joins the lines of a head.
func wire(lines ...string) []byte {
	return []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

// usual are limits that nothing in a usual message reaches: the defaults.
var usual = &Limits{Head: 64 << 10, Line: 16 << 10, Fields: 128}

func BenchmarkParseRequest(b *testing.B) {
	for _, bench := range []struct {
		name string
		head []byte
	}{{"wrk", wrkHead}, {"curl", curlHead}, {"chrome", chromeHead}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.head)))
			b.ReportAllocs()
			var r message.Request
			for b.Loop() {
				if n, err := ParseRequest(bench.head, usual, &r); n != len(bench.head) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkParseResponse(b *testing.B) {
	for _, bench := range []struct {
		name string
		head []byte
	}{{"nginx", nginxHead}, {"tomcat", tomcatHead}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.head)))
			b.ReportAllocs()
			var r message.Response
			for b.Loop() {
				if n, err := ParseResponse(bench.head, usual, message.GET, &r); n != len(bench.head) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkBody decodes a body of eight chunks of 1,000 bytes.
func BenchmarkBody(b *testing.B) {
	var in []byte
	for range 8 {
		in = append(AppendChunkHead(in, 1000), make([]byte, 1000)...)
		in = append(in, "\r\n"...)
	}
	in = AppendLastChunk(in, nil)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	var body Body
	for b.Loop() {
		if err := body.Start(message.Chunked, 0, 0, usual); err != nil {
			b.Fatal(err)
		}
		for rest := in; !body.Done(); {
			_, used, err := body.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[used:]
		}
	}
}
