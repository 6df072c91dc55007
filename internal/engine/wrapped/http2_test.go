package tare_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	xh2c "golang.org/x/net/http2/h2c"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// A server with an empty set of protocols serves HTTP/1, as with net/http since Go 1.27.
func TestEmptyProtocolsAreThoseOfNetHTTP(t *testing.T) {
	for by, maker := range makers {
		if by == "net/http" && testkit.NetHTTPPrecedes("go1.27") {
			continue
		}
		for _, kind := range []string{plain, h1} {
			s := &http.Server{Handler: textHandler("x"), Protocols: protocols()}
			testkit.Equal(t, start(t, kind, maker, s).get("/"), "200 OK x", by, kind)
		}
	}
}

// A server without TLS that supports both protocols distinguishes them by the first bytes, in
// whatever pieces they arrive.
func TestPrefaceIsNotConsumed(t *testing.T) {
	for by, maker := range makers {
		t.Run(by, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0),
				Protocols: protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2)}
			site := start(t, plain, maker, s)
			testkit.Equal(t, site.get("/"), "200 OK x", "HTTP/1")
			got := site.sendText("PRO / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			testkit.Contains(t, got, "HTTP/1.1 200", "a method that begins like the preface")
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
				testkit.Value(io.ReadFull(c, head))(t)
				testkit.Equal(t, head[3], 4, "SETTINGS, in pieces of", size)
			}
		})
	}
}

// A handler that implements HTTP/2 without TLS receives connections on which the client uses HTTP/2
// at once, and connections that are upgraded.
func TestHandlersCanServeHTTP2Themselves(t *testing.T) {
	handler := xh2c.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.URL.Path, b)
	}), new(http2.Server))
	for kind, serve := range unusedKinds {
		if kind == "tls" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			s, l := tare.Wrap(&http.Server{Handler: handler}), listen(t)
			served := make(chan error, 1)
			go func() { served <- serve(t, s, l) }()
			defer func() { s.Close(); <-served }()
			transport := &http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2)}
			defer transport.CloseIdleConnections()
			for range 3 {
				resp, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String()+"/path", "",
					strings.NewReader("body"))
				testkit.Must(t, err)
				b := testkit.Value(io.ReadAll(resp.Body))(t)
				resp.Body.Close()
				testkit.Equal(t, string(b), "HTTP/2.0 /path body")
			}
			for _, at := range []int{0, 1, 16, 17, 18, 20} { // the preface, in pieces
				const settings = "\x04\x00\x00\x00\x00\x00"
				got := frames(t, l, http2.ClientPreface[:at], http2.ClientPreface[at:], settings)
				testkit.Equal(t, strings.HasPrefix(got, "\x00\x00"), true, at, got)
			}
			upgrade := "GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
				"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
			testkit.Contains(t, frames(t, l, upgrade, http2.ClientPreface, " /up "), "HTTP/1.1 101 ", "upgraded")
		})
	}
}

// frames sends two texts and then the frame that must follow. It returns the received bytes up to
// the wanted ones.
func frames(t *testing.T, l net.Listener, first, second, want string) (got string) {
	t.Helper()
	c := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	defer c.Close()
	io.WriteString(c, first)
	framer := http2.NewFramer(c, nil)
	io.WriteString(c, second)
	framer.WriteSettings()
	c.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 1<<10); !strings.Contains(got, want); {
		n, err := c.Read(b)
		if got += string(b[:n]); err != nil {
			t.Errorf("%v; want %q", err, want)
			break
		}
	}
	return got
}
