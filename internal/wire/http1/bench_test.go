package http1

import (
	"net/textproto"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// heads are those of a load generator and a simple server.
var (
	smallRequest  = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	helloResponse = "HTTP/1.1 200 OK\r\nServer: gophr\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\n" +
		"Content-Length: 12\r\nDate: Sat, 21 Nov 2026 00:00:00 GMT\r\n\r\n"
)

func BenchmarkRequest(b *testing.B) {
	for name, head := range map[string]string{"small": smallRequest, "browser": testkit.BrowserGET()} {
		b.Run(name, func(b *testing.B) {
			var r Request
			in := []byte(head)
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				r.Reset()
				if ok, err := r.Parse(in, testLimits); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	var r Request
	var resp Response
	small, browser, hello := []byte(smallRequest), []byte(testkit.BrowserGET()), []byte(helloResponse)
	chunk := []byte("5\r\nhello\r\n")
	var c Chunked
	parse := func() {
		for _, in := range [][]byte{small, browser} {
			r.Reset()
			if ok, err := r.Parse(in, testLimits); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		resp.Reset()
		if ok, err := resp.Parse(hello, testLimits); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, _, err := c.Next(chunk); err != nil {
			t.Fatal(err)
		}
	}
	c.state = chunkSize
	testkit.Equal(t, testing.AllocsPerRun(100, func() { c = Chunked{}; parse() }), 0, "allocations")
}

// BenchmarkLookupName compares ways to look up the names of a browser's head: the table, a map of
// lower-case names, and net/textproto.
func BenchmarkLookupName(b *testing.B) {
	var r Request
	in := []byte(testkit.BrowserGET())
	testkit.Value(r.Parse(in, testLimits))(b)
	known := make(map[string]Name)
	for n, name := range names {
		known[strings.ToLower(name)] = Name(n)
	}
	for _, way := range []struct {
		name   string
		lookup func([]byte) bool
	}{
		{"table", func(name []byte) bool { return LookupName(name) != NameUnknown }},
		{"map", func(name []byte) bool {
			var lower [32]byte
			for i, c := range name {
				if 'A' <= c && c <= 'Z' {
					c |= 0x20
				}
				lower[i] = c
			}
			return known[string(lower[:len(name)])] != NameUnknown
		}},
		{"textproto", func(name []byte) bool { return textproto.CanonicalMIMEHeaderKey(string(name)) != "" }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, f := range r.Fields {
					if name := f.Name.In(in); !way.lookup(name) {
						b.Fatalf("%q", name)
					}
				}
			}
		})
	}
}

// BenchmarkValueSpan compares the two ways to check a browser's field values.
func BenchmarkValueSpan(b *testing.B) {
	var r Request
	in := []byte(testkit.BrowserGET())
	testkit.Value(r.Parse(in, testLimits))(b)
	for name, check := range map[string]func([]byte) int{
		"words": ValueSpan,
		"bytes": func(v []byte) int { return span(v, valueByte) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, f := range r.Fields {
					if v := f.Value.In(in); check(v) != len(v) {
						b.Fatalf("%q", v)
					}
				}
			}
		})
	}
}
