package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/client"
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

// newSide returns one of the transports. settings may be nil.
func newSide(t *testing.T, mode string, ours bool, settings *http.Transport) side {
	theirs := new(http.Transport)
	if settings != nil {
		theirs = settings.Clone()
	}
	s := side{peer: newPeer(t, mode), ours: ours, rt: theirs}
	theirs.DialContext = s.tr.DialContext
	if ours {
		s.tr = likeTheirs(theirs)
		s.rt = s.tr
	}
	return s
}

// set sets a field that both transports have.
func (s side) set(name string, value any) {
	reflect.ValueOf(s.rt).Elem().FieldByName(name).Set(reflect.ValueOf(value))
}

// The table describes the behavior of both transports.
func TestTransportDiffersAsDocumented(t *testing.T) {
	rows := slices.Concat(differencesOfRequests(), differencesOfResponses(), differencesOfConnections(),
		differencesOfSettings())
	for _, d := range rows {
		t.Run(d.row, func(t *testing.T) {
			for ours, want := range map[bool]string{true: d.ours, false: d.theirs} {
				s := newSide(t, "tcp", ours, d.settings)
				testkit.Equal(t, d.observe(s), want, "ours", ours)
				s.rt.CloseIdleConnections()
			}
		})
	}
	tableIsTested(t, rows)
}

// likeTheirs returns a Transport with the settings of the same names.
func likeTheirs(theirs *http.Transport) *tare.Transport {
	tr := new(tare.Transport)
	client.CopyFields(tr, theirs)
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
		"HTTP/2.0 or /3.0, a status such as 000 or +20": true,
		"Errors about malformed or cut-off messages":    true, "Errors of timeouts": true,
		"A server without TLS at an `https` URL":             true,
		"101 that was not requested":                         true,
		"Unrequested bytes in a TLS record after a response": true,
	}
	for _, d := range rows {
		tested[d.row] = true
	}
	page := testkit.Value(os.ReadFile("../../docs/transport.md"))(t)
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
	resp, text, err := exchange(s.rt, r)
	switch {
	case resp == nil:
		return "error"
	case err != nil:
		text += " error"
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, text)
}

// response returns the response to a request. Its body is closed at the end of the test.
func (s side) response(r *http.Request) *http.Response {
	s.Helper()
	resp := testkit.Value(s.rt.RoundTrip(r))(s)
	s.Cleanup(func() { resp.Body.Close() })
	return resp
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

// changed is what http.Transport does, or has done since some releases. The Transport does it with
// every release.
type changed struct {
	what, want string
	since      []string
	observe    func(s side) string
}

func changesOfTransport() []changed {
	const chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"
	long := fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\nhello", 256<<10+6)
	closing := func(first string) func(s side) string {
		return func(s side) string {
			s.numberConns(first)
			s.response(mustRequest("GET", s.url, nil)).Body.Close()
			synctest.Wait() // no transport reads any more
			return s.connNumber()
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
			since: []string{"go1.27"}, observe: func(s side) string {
				dial := s.tr.DialContext
				s.set("DialTLSContext", func(ctx context.Context, network, address string) (net.Conn, error) {
					nc, err := dial(ctx, network, address)
					return &likeTLS{Conn: nc}, err
				})
				s.respondWith(okHello)
				resp := s.response(mustRequest("GET", "https"+strings.TrimPrefix(s.url, "http"), nil))
				state := resp.TLS
				return fmt.Sprint(resp.StatusCode, " ", state != nil, " ", state != nil && state.HandshakeComplete)
			}},
		{what: "100 Continue does not arrive", want: "200 hello after 1s", observe: func(s side) string {
			s.set("ExpectContinueTimeout", time.Second)
			s.respondWith(okHello)
			r, began := mustRequest("PUT", s.url, strings.NewReader("body")), time.Now()
			r.Header.Set("Expect", "100-continue")
			return fmt.Sprint(s.request(r), " after ", time.Since(began))
		}},
		{what: "a proxy does not respond to CONNECT", want: "error after 1m0s", observe: func(s side) string {
			s.set("Proxy", http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}))
			s.runScript(func(_ int, c *scripted) { _, _ = io.Copy(io.Discard, c.r) })
			began := time.Now()
			return fmt.Sprint(s.request(mustRequest("GET", "https://server.invalid", nil)), " after ", time.Since(began))
		}},
		{what: "the end of a chunked body has arrived", want: "hello EOF b", observe: func(s side) string {
			next := make(chan bool)
			s.runScript(func(_ int, c *scripted) {
				c.respond("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")
				<-next
				c.writeText("2\nhe\n3\nllo\n0\nA: b\n\n")
			})
			resp := s.response(mustRequest("GET", s.url, nil))
			next <- true
			synctest.Wait()
			b := make([]byte, len("hello"))
			n, err := resp.Body.Read(b)
			return fmt.Sprintf("%s %v %s", b[:n], err, resp.Trailer.Get("A"))
		}},
		{what: "a body ends soon after the whole response", want: "0, sent body <nil>, then 200 0",
			observe: bodyAfterResponse(false)},
		{what: "a body does not end after the whole response", want: "0, sent body unexpected EOF, then 200 1",
			observe: bodyAfterResponse(true)},
	}
}

// bodyAfterResponse sends a body whose end follows the whole response, or is late, and a second request.
func bodyAfterResponse(isLate bool) func(s side) string {
	return func(s side) string {
		sent := make(chan string, 2)
		s.runScript(func(n int, c *scripted) {
			for r, err := http.ReadRequest(c.r); err == nil; r, err = http.ReadRequest(c.r) {
				c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n))
				b, err := io.ReadAll(r.Body)
				sent <- fmt.Sprint(string(b), " ", err)
			}
		})
		body, feed := io.Pipe()
		defer feed.Close()
		resp := s.response(mustRequest("POST", s.url, body))
		if _, _ = io.WriteString(feed, "body"); !isLate {
			feed.Close()
		}
		text, _ := io.ReadAll(resp.Body)
		received := <-sent
		synctest.Wait()
		return fmt.Sprintf("%s, sent %s, then %s", text, received, s.connNumber())
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
	s.response(mustRequest("GET", s.url, nil).WithContext(ctx)).Body.Close()
	close(closed)
	select {
	case <-kept:
		return s.connNumber()
	case <-time.After(time.Hour):
		return "not kept"
	}
}

// The Transport does what the newest releases of http.Transport do. Here, what must happen within a
// time takes no time.
func TestTransportFollowsNewReleases(t *testing.T) {
	for _, c := range changesOfTransport() {
		t.Run(c.what, func(t *testing.T) {
			for _, ours := range []bool{true, false} {
				if !ours && c.since != nil && testkit.NetHTTPPrecedes(c.since...) {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					s := newSide(t, "memory", ours, nil)
					testkit.Equal(t, c.observe(s), c.want, "ours", ours)
					s.rt.CloseIdleConnections()
				})
			}
		})
	}
}
