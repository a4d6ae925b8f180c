package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProxy: both backends are asked in turn, with all the headers.
func TestProxy(t *testing.T) {
	asked := map[string]int{}
	backend := func(name string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[name]++
			for header, want := range map[string]string{
				"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": r.Host,
				"X-Forwarded-Port": "8080", "Via": "1.1 reverseproxy",
			} {
				if got := r.Header.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
			if len(r.Header.Get("X-Request-Id")) != 32 {
				t.Errorf("request id %q", r.Header.Get("X-Request-Id"))
			}
			io.WriteString(w, name)
		}))
	}
	a, b := backend("a"), backend("b")
	defer a.Close()
	defer b.Close()
	proxy, err := newProxy([]string{a.URL, b.URL}, port("127.0.0.1:8080"))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(proxy)
	defer front.Close()
	for range 4 {
		response, err := http.Get(front.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK || len(body) != 1 {
			t.Errorf("status %d, body %q", response.StatusCode, body)
		}
	}
	if asked["a"] != 2 || asked["b"] != 2 {
		t.Errorf("asked %v, want each twice", asked)
	}
	if _, err := newProxy([]string{"http://%zz"}, "1"); err == nil {
		t.Error("a faulty URL was taken")
	}
}
