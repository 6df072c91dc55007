package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// changed is what releases of http.Transport do since these, and the Transport with every release.
type changed struct {
	what, want string
	since      []string
	settings   func(s side) *http.Transport // nil means none
	observe    func(s side) string
}

func changesOfTransport() []changed {
	const chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"
	long := fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\nhello", 256<<10+6)
	closing := func(first string) func(s side) string {
		return func(s side) string {
			s.numberConns(first)
			return s.closeFirst()
		}
	}
	return []changed{
		{what: "the rest of a closed body has arrived", want: "200 0", since: []string{"go1.27"},
			observe: closing(chunked + "5\nhello\n0\nA: b\n\n")},
		{what: "the rest of a closed body arrives soon", want: "200 0", since: []string{"go1.27"},
			observe: closeInTime},
		{what: "the rest of a closed body does not arrive", want: "200 1", observe: closing(chunked + "5\nhello\n")},
		{what: "the rest of a closed body is long", want: "200 1", observe: closing(long)},
		{what: "a connection has carried CONNECT", want: "200 1", since: []string{"go1.26.9", "go1.27.2"},
			observe: func(s side) string {
				s.numberConns("HTTP/1.1 403 No\nContent-Length: 0\n\n")
				if got := s.request(mustRequest("CONNECT", s.url, nil)); got != "403 " {
					return got
				}
				return s.connNumber()
			}},
		{what: "a trailer field has an invalid name", want: "error", since: []string{"go1.27"},
			observe: withTrailer(http.Header{"A\r\nB": nil})},
		{what: "a trailer field has an invalid value", want: "error", since: []string{"go1.27"},
			observe: withTrailer(http.Header{"A": {"b\r\nC: d"}})},
		{what: "DialTLSContext returns what has the methods of a TLS connection", want: "200 true true",
			since: []string{"go1.27"}, settings: func(s side) *http.Transport {
				return &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, s.l.Addr().String())
					return &likeTLS{Conn: nc}, err
				}}
			}, observe: func(s side) string {
				s.respondWith(okHello)
				resp, err := s.rt.RoundTrip(mustRequest("GET", "https"+strings.TrimPrefix(s.url, "http"), nil))
				if err != nil {
					return err.Error()
				}
				defer resp.Body.Close()
				state := resp.TLS
				return fmt.Sprint(resp.StatusCode, " ", state != nil, " ", state != nil && state.HandshakeComplete)
			}},
	}
}

// withTrailer sends a request with a trailer section.
func withTrailer(trailer http.Header) func(s side) string {
	return func(s side) string {
		s.respondWith(okHello)
		r := mustRequest("POST", s.url, io.MultiReader(strings.NewReader("body")))
		r.Trailer = trailer
		return s.request(r)
	}
}

// likeTLS has the methods of a *tls.Conn that a transport uses.
type likeTLS struct {
	net.Conn
	state tls.ConnectionState
}

func (c *likeTLS) HandshakeContext(context.Context) error {
	c.state.HandshakeComplete = true
	return nil
}

func (c *likeTLS) ConnectionState() tls.ConnectionState { return c.state }

// closeInTime closes a body whose rest is sent when the client has closed it, and sends a second
// request.
func closeInTime(s side) string {
	closed := make(chan bool)
	s.runScript(func(n int, c *scripted) {
		if n == 0 {
			if !c.respond("HTTP/1.1 200 OK\nContent-Length: 10\n\nhello") {
				return
			}
			<-closed
			c.writeText("hello")
		}
		for c.respond(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n)) {
		}
	})
	kept := make(chan error, 1)
	trace := &httptrace.ClientTrace{PutIdleConn: func(err error) { kept <- err }}
	ctx := httptrace.WithClientTrace(s.Context(), trace)
	resp, err := s.rt.RoundTrip(mustRequest("GET", s.url, nil).WithContext(ctx))
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	close(closed)
	select {
	case <-kept:
		return s.connNumber()
	case <-time.After(time.Second): // the connection was too slow, and is closed
		return "not kept"
	}
}

// The Transport does what the newest releases of http.Transport do.
func TestTransportFollowsNewReleases(t *testing.T) {
	for _, c := range changesOfTransport() {
		t.Run(c.what, func(t *testing.T) {
			for _, ours := range []bool{true, false} {
				if !ours && c.since != nil && testkit.NetHTTPPrecedes(c.since...) {
					continue
				}
				testkit.Try(t, func() error { // a busy machine may be too slow for the limits of time
					s := side{peer: newPeer(t, "tcp"), ours: ours}
					theirs := new(http.Transport)
					if c.settings != nil {
						theirs = c.settings(s)
					}
					s.rt = theirs
					if ours {
						s.tr = likeTheirs(theirs)
						s.rt = s.tr
					}
					defer s.rt.CloseIdleConnections()
					if got := c.observe(s); got != c.want {
						return fmt.Errorf("ours %v: %q, want %q", ours, got, c.want)
					}
					return nil
				})
			}
		})
	}
}
