package e2e

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

// A client of gRPC-Web, in either protocol, binary or text, is served by a server that
// knows gRPC alone.
func TestGRPCWeb(t *testing.T) {
	t.Parallel()
	b := httptest.NewServer(h2c.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || r.Header.Get("Content-Type") != "application/grpc+proto" || r.Header.Get("TE") != "trailers" {
			message = []byte("not gRPC: " + r.Proto + " " + r.Header.Get("Content-Type"))
		}
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		w.Write(message)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "well")
	}), &http2.Server{}))
	defer b.Close()
	s := start(t, farm(strings.Replace(b.URL, "http://", "h2://", 1)))
	const message = "\x00\x00\x00\x00\x05hello"
	// The order of trailers is the server's own.
	ends := []string{"\x80\x00\x00\x00\x24grpc-status: 0\r\ngrpc-message: well\r\n", "\x80\x00\x00\x00\x24grpc-message: well\r\ngrpc-status: 0\r\n"}
	plain := &http.Client{Transport: &http.Transport{}}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	for name, client := range map[string]*http.Client{"HTTP/1.1": plain, "HTTP/2": {Transport: &http.Transport{Protocols: protocols}}} {
		for _, kind := range []string{"application/grpc-web+proto", "application/grpc-web-text+proto"} {
			content := message
			text := strings.Contains(kind, "text")
			if text {
				content = base64.StdEncoding.EncodeToString([]byte(message))
			}
			response, err := client.Post(s.url("/pkg.Service/Method"), kind, strings.NewReader(content))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, kind, err)
			}
			got, err := io.ReadAll(response.Body)
			if err != nil || response.Header.Get("Content-Type") != kind {
				t.Errorf("%s, %s: answered in %s, %v", name, kind, response.Header.Get("Content-Type"), err)
			}
			if text {
				got = decodePieces(t, string(got))
			}
			if string(got) != message+ends[0] && string(got) != message+ends[1] {
				t.Errorf("%s, %s: got %q", name, kind, got)
			}
		}
		client.CloseIdleConnections()
	}
}

// decodePieces reads Base64 of which each group of four may be padded.
func decodePieces(t *testing.T, text string) (content []byte) {
	t.Helper()
	for ; len(text) >= 4; text = text[4:] {
		piece, err := base64.StdEncoding.DecodeString(text[:4])
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, piece...)
	}
	if text != "" {
		t.Errorf("%q is left", text)
	}
	return content
}
