package client_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// A program that keeps a small part of a large response does not keep the rest of it in memory.
func TestTransportSmallStringsKeepLittleMemory(t *testing.T) {
	const n, large = 50, 128 << 10
	l := listenAt(t, "tcp", "127.0.0.1:0")
	go serveLargeHeads(l, large)
	tr := &tare.Transport{MaxResponseHeaderBytes: 2 * large}
	defer tr.CloseIdleConnections()
	for name, part := range map[string]func(*http.Response) string{
		"value":   func(r *http.Response) string { return r.Header.Get("X-Small") },
		"status":  func(r *http.Response) string { return r.Status },
		"proto":   func(r *http.Response) string { return r.Proto },
		"cookie":  func(r *http.Response) string { return r.Cookies()[0].Value },
		"trailer": func(r *http.Response) string { return r.Trailer.Get("X-Tail") },
		"name": func(r *http.Response) string {
			for name := range r.Header {
				if strings.HasPrefix(name, "X-Sm") {
					return name
				}
			}
			return ""
		},
	} {
		var before, after runtime.MemStats
		kept := make([]string, 0, n)
		for i := range n + 3 {
			if i == 3 { // the first iterations allocate what lasts
				clear(kept)
				kept = kept[:0]
				runtime.GC()
				runtime.ReadMemStats(&before)
			}
			resp, err := tr.RoundTrip(mustRequest("GET", "http://"+l.Addr().String()+"/", nil))
			testkit.Must(t, err)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, part(resp))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept[0] == "" {
			t.Fatalf("%s: missing", name)
		}
		if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 16<<10 {
			t.Errorf("%s: each keeps %d bytes", name, each)
		}
		runtime.KeepAlive(kept)
	}
}

// serveLargeHeads sends responses with a head of a given size, and with large trailer sections.
func serveLargeHeads(l net.Listener, size int) {
	fields := "X-Large: " + strings.Repeat("v", size/2) + "\r\n"
	for range 50 {
		fields += "X-Many: " + strings.Repeat("w", size/100) + "\r\n"
	}
	response := "HTTP/1.1 200 Fine\r\nX-Small: small\r\nSet-Cookie: a=b\r\n" + fields +
		"Transfer-Encoding: chunked\r\nTrailer: X-Tail\r\n\r\n0\r\nX-Tail: tail\r\nX-Long: " +
		strings.Repeat("t", 7<<10) + "\r\n\r\n"
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewReader(c); ; {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				if _, err := fmt.Fprint(c, response); err != nil {
					return
				}
			}
		}()
	}
}
