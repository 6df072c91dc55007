package client_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// side is one of the two transports to compare, with a server of its own.
type side struct {
	*peer
	ours bool
	rt   interface {
		http.RoundTripper
		CloseIdleConnections()
	}
}

// difference is a row of the table in docs/transport.md, with the behavior that a test observes on
// either side.
type difference struct {
	row          string
	ours, theirs string
	settings     *http.Transport // nil means none
	observe      func(s side) string
}

// The table describes the behavior of both transports.
func TestTransportDiffersAsDocumented(t *testing.T) {
	rows := slices.Concat(differencesOfRequests(), differencesOfResponses(), differencesOfConnections(),
		differencesOfSettings())
	for _, d := range rows {
		t.Run(d.row, func(t *testing.T) {
			for ours, want := range map[bool]string{true: d.ours, false: d.theirs} {
				theirs := new(http.Transport)
				if d.settings != nil {
					theirs = d.settings.Clone()
				}
				s := side{peer: newPeer(t, "tcp"), ours: ours, rt: theirs}
				if ours {
					s.tr = likeTheirs(theirs)
					s.rt = s.tr
				}
				if got := d.observe(s); got != want {
					t.Errorf("ours %v: %q, want %q", ours, got, want)
				}
				s.rt.CloseIdleConnections()
			}
		})
	}
	tableIsTested(t, rows)
}

// likeTheirs returns a Transport with the settings of the same names.
func likeTheirs(theirs *http.Transport) *tare.Transport {
	tr := new(tare.Transport)
	from, to := reflect.ValueOf(theirs).Elem(), reflect.ValueOf(tr).Elem()
	for i := range to.NumField() {
		if f := to.Type().Field(i); f.IsExported() && f.Name != "Addr" && f.Name != "UnixSockets" {
			to.Field(i).Set(from.FieldByName(f.Name))
		}
	}
	return tr
}

// tableIsTested reports rows of the table that have no test.
func tableIsTested(t *testing.T, rows []difference) {
	// by TestTransportReadsResponsesAsListed, TestTransportRejectsUnrequestedBytesBelowTLS and
	// TestTransportErrorsAreThoseOfNetHTTP
	tested := map[string]bool{
		"Line ends in a response's head": true, "Folded field lines, spaces in names": true,
		"`Content-Length` twice, even if equal":     true,
		"`Content-Length` with `Transfer-Encoding`": true, "`Transfer-Encoding` on HTTP/1.0": true,
		"HTTP/2.0 or /3.0 in a status line":          true,
		"Errors about malformed or cut-off messages": true, "Errors of timeouts": true,
		"A server without TLS at an `https` URL": true,
		"101 that was not asked for":             true, "Bytes that come with a response, unasked, below TLS": true,
	}
	for _, d := range rows {
		tested[d.row] = true
	}
	page, err := os.ReadFile("../../docs/transport.md")
	testkit.Must(t, err)
	_, table, _ := strings.Cut(string(page), "|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| `).FindAllStringSubmatch(table, -1) {
		if named[m[1]] = true; !tested[m[1]] {
			t.Errorf("no test is about the row %q", m[1])
		}
	}
	for row := range tested {
		if !named[row] {
			t.Errorf("the table has no row %q", row)
		}
	}
}

// request returns the status and the body of a response, or "error".
func (s side) request(r *http.Request) string {
	resp, err := s.rt.RoundTrip(r)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%d %s error", resp.StatusCode, b)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}

// respondWith makes the server send text in response to every request.
func (s side) respondWith(text string) {
	s.runScript(func(_ int, c *scripted) {
		for c.respond(text) {
		}
	})
}

// echoLines makes the server respond with the lines of a request's head that begin with a prefix.
func (s side) echoLines(begin ...string) {
	s.runScript(func(_ int, c *scripted) {
		var heard []string
		for {
			line, err := c.r.ReadString('\n')
			line = strings.TrimSpace(line)
			if err != nil || line == "" {
				break
			}
			if slices.ContainsFunc(begin, func(b string) bool { return strings.HasPrefix(line, b) }) {
				heard = append(heard, line)
			}
		}
		text := strings.Join(heard, "; ")
		c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nConnection: close\nContent-Length: %d\n\n%s", len(text), text))
	})
}

// numberConns makes the server send first in response to the first request. In response to others
// it sends the number of their connection, from 0.
func (s side) numberConns(first string) {
	s.runScript(func(n int, c *scripted) {
		if n == 0 && !c.respond(first) {
			return
		}
		for c.respond(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n)) {
		}
	})
}

// connNumber sends a request and returns the server's response, which is the connection's number.
func (s side) connNumber() string { return s.request(mustRequest("GET", s.url, nil)) }

// closeFirst closes the body of a first response, and sends a second request.
func (s side) closeFirst() string {
	resp, err := s.rt.RoundTrip(mustRequest("GET", s.url, nil))
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	return s.connNumber()
}

// Unrequested bytes in a TLS record behind a response are found before the next request uses the
// connection, and are not read as its response. That holds for TLS with the server, with a proxy,
// and with a server over TLS with a proxy.
func TestTransportRejectsUnrequestedBytesBelowTLS(t *testing.T) {
	server, client := certificates()
	for _, test := range []struct{ proxied, tunnelled bool }{{false, false}, {true, false}, {true, true}} {
		l := listenAt(t, "tcp", "127.0.0.1:0")
		p := &peer{T: t, tr: &tare.Transport{TLSClientConfig: client}, l: tls.NewListener(holdingListener{l}, server),
			url: "https://" + l.Addr().String()}
		if test.proxied {
			p.tr.Proxy = http.ProxyURL(&url.URL{Scheme: "https", Host: l.Addr().String()})
		}
		if test.proxied && !test.tunnelled {
			p.url = "http://host"
		}
		p.runScript(func(n int, c *scripted) {
			below := c.Conn.(*tls.Conn).NetConn().(*holding)
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
			if _, text := p.do("POST", "/", nil); text != fmt.Sprint(i) {
				t.Errorf("%+v: request %d got %q", test, i, text)
			}
		}
	}
}

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
