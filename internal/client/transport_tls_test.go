package client_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// Unrequested bytes in a TLS record behind a response are found before the next request uses the
// connection, and are not read as its response. That holds for TLS with the server, with a proxy,
// and with a server over TLS with a proxy.
func TestTransportRejectsUnrequestedBytesBelowTLS(t *testing.T) {
	server, _ := tlstest.Configs()
	for _, test := range []struct{ proxied, tunnelled bool }{{false, false}, {true, false}, {true, true}} {
		p := newHoldingPeer(t)
		if test.proxied {
			p.tr.Proxy = http.ProxyURL(&url.URL{Scheme: "https", Host: p.l.Addr().String()})
		}
		if test.proxied && !test.tunnelled {
			p.url = "http://host"
		}
		p.runScript(func(n int, c *scripted) {
			below := c.below()
			if test.tunnelled {
				if !c.respond("HTTP/1.1 200 OK\n\n") {
					return
				}
				within := tls.Server(c.Conn, server)
				c = &scripted{within, bufio.NewReader(within), p.T}
			}
			if c.request() == nil {
				return
			}
			below.hold = true
			c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n))
			// in a TLS record of its own
			c.writeText("HTTP/1.1 200 OK\nContent-Length: 6\n\npoison")
			below.release()
			for c.respond("HTTP/1.1 200 OK\nContent-Length: 6\n\npoison") {
			}
		})
		for i := range 3 {
			_, text, err := p.send(mustRequest("POST", p.url, nil))
			testkit.Must(t, err)
			testkit.Equal(t, text, fmt.Sprint(i), test, "request", i)
		}
	}
}

// newHoldingPeer returns a peer with TLS whose connections can hold back what is written.
func newHoldingPeer(t *testing.T) *peer {
	server, client := tlstest.Configs()
	l := listenAt(t, "tcp", "127.0.0.1:0")
	return &peer{T: t, tr: &tare.Transport{TLSClientConfig: client}, l: tls.NewListener(holdingListener{l}, server),
		url: "https://" + l.Addr().String()}
}

// below returns the connection below TLS.
func (c *scripted) below() *holding { return c.Conn.(*tls.Conn).NetConn().(*holding) }

// holdingListener accepts connections that can hold back what is written.
type holdingListener struct{ net.Listener }

func (l holdingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &holding{Conn: c}, err
}

type holding struct {
	net.Conn
	hold bool
	held []byte
}

func (c *holding) Write(p []byte) (int, error) {
	if !c.hold {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// release writes at once what was held back.
func (c *holding) release() {
	c.hold = false
	_, _ = c.Conn.Write(c.held)
}

// A body that ends with the connection is incomplete if TLS is cut off without close_notify.
func TestTransportDetectsTruncatedTLS(t *testing.T) {
	for _, cut := range []int{0, 1} {
		p := newHoldingPeer(t)
		p.runScript(func(_ int, c *scripted) {
			c.respond("HTTP/1.1 200 OK\n\nhello")
			below := c.below()
			below.hold = true
			c.writeText(" there")
			below.held = below.held[:len(below.held)-cut]
			if below.release(); cut > 0 {
				below.Close()
			}
		})
		for _, rt := range []http.RoundTripper{p.tr, &http.Transport{TLSClientConfig: p.tr.TLSClientConfig}} {
			_, text, err := exchange(rt, mustRequest("GET", p.url, nil))
			if whole := text == "hello there" && err == nil; whole != (cut == 0) ||
				cut > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%T, %d bytes cut off: %q, %v", rt, cut, text, err)
			}
		}
	}
}

// TLS may hold records that the client has not read: they are input, too.
func TestTransportBodiesReportInputThatTLSHolds(t *testing.T) {
	p := newHoldingPeer(t)
	p.runScript(func(_ int, c *scripted) {
		below := c.below()
		if c.request() == nil {
			return
		}
		below.hold = true
		for _, record := range []string{"HTTP/1.1 200 OK\nContent-Length: 9\n\n", "a", "b", "c"} {
			c.writeText(record)
		}
		below.release()
		c.request() // the client closes the body
	})
	resp := testkit.Value(p.tr.RoundTrip(mustRequest("GET", p.url, nil)))(t)
	defer resp.Body.Close()
	for _, want := range []string{"a", "b", "c"} {
		var b [8]byte
		n, err := resp.Body.Read(b[:])
		has := resp.Body.(connection.InputReporter).HasInput()
		if string(b[:n]) != want || err != nil || has != (want != "c") {
			t.Fatalf("%q, %v, input %v; want %q", b[:n], err, has, want)
		}
	}
}
