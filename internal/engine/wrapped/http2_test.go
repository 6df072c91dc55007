package tare_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// Clients use HTTP/2 over TLS, HTTP/1.1 if they support nothing else, and HTTP/2 without TLS where
// it is enabled. A handler receives the same requests from tare and from net/http.
func TestProtocolsAreServedAsByNetHTTP(t *testing.T) {
	for _, kind := range []string{plain, h1, h2, h2c} {
		for by, maker := range makers {
			t.Run(kind+"/"+by, func(t *testing.T) {
				nothingLeft(t)
				s := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
				if kind == h2c {
					s.Protocols = new(http.Protocols)
					s.Protocols.SetHTTP1(true)
					s.Protocols.SetUnencryptedHTTP2(true)
				}
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					_, pushes := w.(http.Pusher)
					w.Header().Set("Trailer", "X-After")
					fmt.Fprintln(w, r.Proto, r.TLS != nil, r.Context().Value(http.ServerContextKey) == s, pushes)
					http.NewResponseController(w).Flush()
					fmt.Fprintln(w, len(b), r.Trailer.Get("X-Sum"))
					w.Header().Set("X-After", "y")
				})
				site := start(t, kind, maker, s)
				want := map[string]string{
					plain: "HTTP/1.1 false true false\n100000 z\n", h1: "HTTP/1.1 true true false\n100000 z\n",
					h2: "HTTP/2.0 true true true\n100000 z\n", h2c: "HTTP/2.0 false true true\n100000 z\n",
				}[kind]
				if by == "tare" { // server push is not supported
					want = strings.Replace(want, "true true\n", "true false\n", 1)
				}
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						req, _ := http.NewRequest(http.MethodPost, site.url,
							io.MultiReader(strings.NewReader(strings.Repeat("x", 100000))))
						req.Trailer = http.Header{"X-Sum": {"z"}}
						resp, err := site.client.Do(req)
						if err != nil {
							t.Error(err)
							return
						}
						defer resp.Body.Close()
						b, err := io.ReadAll(resp.Body)
						if got := string(b); got != want || err != nil || resp.Trailer.Get("X-After") != "y" {
							t.Errorf("got %q, %v, trailer %v; want %q", got, err, resp.Trailer, want)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// A server with an empty set of protocols serves HTTP/1, as with net/http since Go 1.27.
func TestEmptyProtocolsAreThoseOfNetHTTP(t *testing.T) {
	for by, maker := range makers {
		if by == "net/http" && testkit.NetHTTPPrecedes("go1.27") {
			continue
		}
		for _, kind := range []string{plain, h1} {
			s := &http.Server{Handler: textHandler("x"), Protocols: new(http.Protocols)}
			if got := start(t, kind, maker, s).get("/"); got != "200 OK x" {
				t.Errorf("%s, %s: %s", by, kind, got)
			}
		}
	}
}

// A server without TLS that supports both protocols distinguishes them by the first bytes, in
// whatever pieces they arrive.
func TestPrefaceIsNotConsumed(t *testing.T) {
	for by, maker := range makers {
		t.Run(by, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), Protocols: new(http.Protocols),
				ErrorLog: log.New(io.Discard, "", 0)}
			s.Protocols.SetHTTP1(true)
			s.Protocols.SetUnencryptedHTTP2(true)
			site := start(t, plain, maker, s)
			if got := site.get("/"); got != "200 OK x" {
				t.Errorf("HTTP/1: %q", got)
			}
			if got := site.sendText("PRO / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got,
				"HTTP/1.1 200") {
				t.Errorf("a method that begins like the preface: %q", got)
			}
			if got := site.sendText("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"); strings.Contains(got, "HTTP/1.1 2") &&
				by == "tare" {
				t.Errorf("no preface after all: %q", got)
			}
			for _, size := range []int{1, 7, 23, 24, 25, 100} {
				c := site.dial()
				rest := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
				for rest != "" {
					n := min(size, len(rest))
					io.WriteString(c, rest[:n])
					rest = rest[n:]
					time.Sleep(time.Millisecond)
				}
				head := make([]byte, 9)
				if _, err := io.ReadFull(c, head); err != nil || head[3] != 4 {
					t.Errorf("in pieces of %d: %x, %v, want SETTINGS", size, head, err)
				}
			}
		})
	}
}
