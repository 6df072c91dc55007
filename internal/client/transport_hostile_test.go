package client_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// inUse counts goroutines and descriptors.
func inUse() int { return runtime.NumGoroutine() + testkit.OpenFiles() }

// Whenever a request is canceled, and whichever side closes first, no goroutine and no descriptor
// is left.
func TestTransportLeavesNoGoroutinesOrDescriptors(t *testing.T) {
	testkit.Long(t, "it sends many requests")
	var http1 http.Protocols
	http1.SetHTTP1(true)
	for _, protocols := range []*http.Protocols{&http1, onlyHTTP2()} {
		t.Run(protocols.String(), func(t *testing.T) { testLeaves(t, protocols) })
	}
}

func testLeaves(t *testing.T, protocols *http.Protocols) {
	before := inUse()
	func() {
		p := newPeer(t, "tcp")
		p.tr.Protocols = protocols
		p.tr.MaxConnsPerHost, p.tr.MaxIdleConnsPerHost = 8, 8
		s := p.serveWith(&http.Server{Protocols: protocols,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, io.LimitReader(r.Body, 1000))
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
				io.WriteString(w, strings.Repeat("x", rand.IntN(20_000)))
			})})
		defer s.Close()
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				for range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
					r := mustRequest("POST", p.url, io.LimitReader(zeros{}, rand.Int64N(100_000)))
					resp, err := p.tr.RoundTrip(r.WithContext(ctx))
					if err == nil {
						if rand.IntN(2) == 0 {
							io.Copy(io.Discard, resp.Body)
						}
						resp.Body.Close()
					} else if ctx.Err() == nil && !errors.As(err, new(*tare.TransportError)) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		testkit.WaitFor(t, "all connections to end", func() bool { return countOf(p.tr).Active == 0 })
		p.tr.CloseIdleConnections()
	}()
	testkit.WaitFor(t, "goroutines and descriptors to be gone", func() bool { return inUse() <= before })
}

// The responses on which tare and net/http differ are listed here: some that net/http accepts are
// rejected. docs/transport.md describes the differences.
func TestTransportReadsResponsesAsListed(t *testing.T) {
	type responseTest struct{ response, ours, theirs string } // "" for theirs means the same
	for _, a := range []responseTest{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 hi", ""},
		{"HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n", "299 ", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "200 ", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHost: a\r\n\r\n", "200 x", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n", "error", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 200) + "\r\n", "200 ", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "error", ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "error", ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "error", ""},
		{"HTTP/1.1 20 OK\r\n\r\n", "error", ""},
		{"HTTP/1.1 0200 OK\r\n\r\n", "error", ""},
		{"HTTP/3.0 200 OK\r\n\r\n", "error", "200 "},
		{"HTTP/1.1 000 OK\r\n\r\n", "error", "0 "},
		{"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", "error", "20 "},
		{"ICY 200 OK\r\n\r\n", "error", ""},
		{"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n", "error", "200 "},
		{"HTTP/1.1 200 OK\r\nNoColon\r\n\r\n", "error", ""},

		{"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "error", "200 hi"},
		{"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", "error", "200 "},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "error", "200 hi"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "error",
			"200 hi"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "error",
			"200 2\r\nhi\r\n0\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\nA: \x01\r\nContent-Length: 0\r\n\r\n", "error", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;x\r\nhi\r\n0\r\n\r\n", "200 error", ""},
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "error", "101 "},
	} {
		p := newPeer(t, "memory")
		p.runScript(func(_ int, c *scripted) {
			if c.request() != nil {
				io.WriteString(c, a.response)
			}
		})
		theirs := &http.Transport{DialContext: p.tr.DialContext, DisableKeepAlives: true}
		summary := func(rt http.RoundTripper) string {
			resp, text, err := exchange(rt, mustRequest("POST", p.url, nil))
			switch {
			case resp == nil:
				return "error"
			case err != nil:
				text = "error"
			}
			return fmt.Sprintf("%d %s", resp.StatusCode, text)
		}
		testkit.Equal(t, summary(p.tr), a.ours, a.response)
		testkit.Equal(t, summary(theirs), cmp.Or(a.theirs, a.ours), "net/http:", a.response)
	}
}

// A program that keeps a small part of a large response does not keep the rest of it in memory.
func TestTransportSmallStringsKeepLittleMemory(t *testing.T) {
	testkit.Long(t, "it measures memory")
	const n, large = 50, 128 << 10
	address := testkit.ServeTCP(t, func(c net.Conn) { serveLargeHeads(c, large) })
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
			resp := testkit.Value(tr.RoundTrip(mustRequest("GET", "http://"+address+"/", nil)))(t)
			testkit.Value(io.Copy(io.Discard, resp.Body))(t)
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
func serveLargeHeads(c net.Conn, size int) {
	fields := "X-Large: " + strings.Repeat("v", size/2) + "\r\n"
	for range 50 {
		fields += "X-Many: " + strings.Repeat("w", size/100) + "\r\n"
	}
	response := "HTTP/1.1 200 Fine\r\nX-Small: small\r\nSet-Cookie: a=b\r\n" + fields +
		"Transfer-Encoding: chunked\r\nTrailer: X-Tail\r\n\r\n0\r\nX-Tail: tail\r\nX-Long: " +
		strings.Repeat("t", 7<<10) + "\r\n\r\n"
	for in := bufio.NewReader(c); ; {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		if _, err := fmt.Fprint(c, response); err != nil {
			return
		}
	}
}
