package tare_test

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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
