package hpack

import (
	"bytes"
	"testing"

	theirs "golang.org/x/net/http2/hpack"

	"sluice/internal/message"
)

// chrome is a browser's request: the one that package http1 is measured with, as
// HTTP/2 has it.
var chrome = []theirs.HeaderField{
	{Name: ":method", Value: "GET"},
	{Name: ":authority", Value: "shop.example.com"},
	{Name: ":scheme", Value: "https"},
	{Name: ":path", Value: "/api/v1/orders/4711?expand=items&lang=en"},
	{Name: "cache-control", Value: "max-age=0"},
	{Name: "sec-ch-ua", Value: `"Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"`},
	{Name: "sec-ch-ua-mobile", Value: "?0"},
	{Name: "sec-ch-ua-platform", Value: `"Linux"`},
	{Name: "upgrade-insecure-requests", Value: "1"},
	{Name: "user-agent", Value: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"},
	{Name: "accept", Value: "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"},
	{Name: "sec-fetch-site", Value: "same-origin"},
	{Name: "sec-fetch-mode", Value: "navigate"},
	{Name: "sec-fetch-dest", Value: "document"},
	{Name: "accept-encoding", Value: "gzip, deflate, br, zstd"},
	{Name: "accept-language", Value: "en-GB,en;q=0.9,de;q=0.8"},
	{Name: "cookie", Value: "session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=1"},
}

// nginx is the answer to it.
var nginx = []theirs.HeaderField{
	{Name: ":status", Value: "200"},
	{Name: "server", Value: "nginx/1.26.3"},
	{Name: "date", Value: "Fri, 21 Nov 2025 00:00:00 GMT"},
	{Name: "content-type", Value: "text/plain"},
	{Name: "content-length", Value: "53"},
	{Name: "last-modified", Value: "Thu, 20 Nov 2025 23:00:00 GMT"},
	{Name: "etag", Value: `"691f9d70-35"`},
	{Name: "accept-ranges", Value: "bytes"},
}

// theirBlocks encodes the same fields twice, as x/net does: first with most of
// them written out, then with most of them indexed.
func theirBlocks(fields []theirs.HeaderField) (first, again []byte) {
	var out bytes.Buffer
	e := theirs.NewEncoder(&out)
	encode := func() []byte {
		out.Reset()
		for _, f := range fields {
			if err := e.WriteField(f); err != nil {
				panic(err)
			}
		}
		return bytes.Clone(out.Bytes())
	}
	return encode(), encode()
}

// ourBlock encodes the fields as we do.
func ourBlock(dst []byte, fields message.Fields) []byte {
	for i := range fields {
		f := &fields[i]
		dst = AppendField(dst, f.ID, f.Name, f.Value)
	}
	return dst
}

// asOurs has the fields that are no pseudo-fields, in our form.
func asOurs(fields []theirs.HeaderField) (fs message.Fields) {
	for _, f := range fields {
		if !f.IsPseudo() {
			name := []byte(f.Name)
			fs = append(fs, message.Field{Name: name, Value: []byte(f.Value), ID: message.Lookup(name)})
		}
	}
	return fs
}

// BenchmarkDecode reads the request as the first of a connection, as a later one,
// and as our encoder writes it; also with x/net.
func BenchmarkDecode(b *testing.B) {
	first, again := theirBlocks(chrome)
	plain := ourBlock(AppendPath(AppendScheme(AppendAuthority(AppendMethod(nil, message.GET, nil), []byte(chrome[1].Value)), []byte("https")), []byte(chrome[3].Value)), asOurs(chrome))
	for _, bench := range []struct {
		name  string
		block []byte
	}{{"first", first}, {"again", again}, {"plain", plain}} {
		b.Run(bench.name+"/ours", func(b *testing.B) {
			d, h := NewDecoder(usual), Head{}
			b.ReportAllocs()
			if err := d.Decode(first, &h); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := d.Decode(bench.block, &h); err != nil || len(h.Fields) != len(chrome) {
					b.Fatal(len(h.Fields), err)
				}
			}
		})
		b.Run(bench.name+"/theirs", func(b *testing.B) {
			n := 0
			d := theirs.NewDecoder(InitialTable, func(theirs.HeaderField) { n++ })
			b.ReportAllocs()
			if _, err := d.Write(first); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				n = 0
				if _, err := d.Write(bench.block); err != nil || d.Close() != nil || n != len(chrome) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkEncode writes the answer's fields: as we do, as we would in the Huffman
// code, and with x/net's table.
func BenchmarkEncode(b *testing.B) {
	fs := asOurs(nginx)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst = ourBlock(AppendStatus(dst[:0], 200), fs)
		}
		b.ReportMetric(float64(len(dst)), "bytes")
	})
	b.Run("Huffman", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst = AppendStatus(dst[:0], 200)
			for i := range fs {
				dst = appendInHuffman(dst, nginx[i+1], fs[i].ID)
			}
		}
		b.ReportMetric(float64(len(dst)), "bytes")
	})
	b.Run("theirs", func(b *testing.B) {
		b.ReportAllocs()
		var out bytes.Buffer
		e := theirs.NewEncoder(&out)
		for b.Loop() {
			out.Reset()
			for _, f := range nginx {
				if err := e.WriteField(f); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(out.Len()), "bytes")
	})
}

// appendInHuffman is AppendField with its strings in the Huffman code.
func appendInHuffman(dst []byte, f theirs.HeaderField, id message.ID) []byte {
	if index := nameIndex[id]; index != 0 {
		dst = appendInt(dst, withoutIndexing, 0x0f, int(index))
	} else {
		dst = appendInt(append(dst, withoutIndexing), 0x80, 0x7f, int(theirs.HuffmanEncodeLength(f.Name)))
		dst = theirs.AppendHuffmanString(dst, f.Name)
	}
	dst = appendInt(dst, 0x80, 0x7f, int(theirs.HuffmanEncodeLength(f.Value)))
	return theirs.AppendHuffmanString(dst, f.Value)
}

// BenchmarkHuffman decodes a browser's longest value.
func BenchmarkHuffman(b *testing.B) {
	in := theirs.AppendHuffmanString(nil, chrome[9].Value)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(chrome[9].Value)))
		var out []byte
		for b.Loop() {
			out, _ = AppendDecoded(out[:0], in)
		}
		if string(out) != chrome[9].Value {
			b.Fatalf("%q", out)
		}
	})
	b.Run("theirs", func(b *testing.B) {
		b.SetBytes(int64(len(chrome[9].Value)))
		var out bytes.Buffer
		for b.Loop() {
			out.Reset()
			if _, err := theirs.HuffmanDecode(&out, in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
