package tare_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare"
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
	// by TestTransportReadsResponsesAsListed and TestTransportRejectsUnrequestedBytesBelowTLS
	tested := map[string]bool{
		"Line ends in a response's head": true, "Folded field lines, spaces in names": true,
		"`Content-Length` twice, even if equal":     true,
		"`Content-Length` with `Transfer-Encoding`": true, "`Transfer-Encoding` on HTTP/1.0": true,
		"HTTP/2.0 or /3.0 in a status line": true,
		"101 that was not asked for":        true, "Bytes that come with a response, unasked, below TLS": true,
	}
	for _, d := range rows {
		tested[d.row] = true
	}
	page, err := os.ReadFile("docs/transport.md")
	if err != nil {
		t.Fatal(err)
	}
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

// ask returns the status and the body of a response, or "error".
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

// says makes the server send text in response to every request.
func (s side) respondWith(text string) {
	s.runScript(func(_ int, c *scripted) {
		for c.respond(text) {
		}
	})
}

// hears makes the server respond with the lines of a request's head that begin with a prefix.
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

// numbers makes the server respond to the first request of the first connection with first, and to
// all other requests with the number of their connection, from 0.
func (s side) numberConns(first string) {
	s.runScript(func(n int, c *scripted) {
		if n == 0 && !c.respond(first) {
			return
		}
		for c.respond(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n)) {
		}
	})
}

// number sends a request and returns the server's response, which is the connection's number.
func (s side) connNumber() string { return s.request(mustRequest("GET", s.url, nil)) }

func differencesOfRequests() []difference {
	return []difference{
		{row: "Spaces in a request's target, a malformed host", ours: "error", theirs: "200 GET /?a b HTTP/1.1",
			observe: func(s side) string {
				s.echoLines("GET")
				r := mustRequest("GET", s.url+"/", nil)
				r.URL.RawQuery = "a b"
				return s.request(r)
			}},
		{row: "Spaces in a request's target, a malformed host", ours: "error", theirs: "200 Host:",
			observe: func(s side) string {
				s.echoLines("Host:")
				r := mustRequest("GET", s.url, nil)
				r.Host = "a\tb"
				return s.request(r)
			}},
		{row: "`content-length` in `Header`, and the like", ours: "200 Content-Length: 4",
			theirs: "200 Content-Length: 4; content-length: 9", observe: func(s side) string {
				s.echoLines("Content-Length", "content-length")
				r := mustRequest("POST", s.url, strings.NewReader("body"))
				r.Header["content-length"] = []string{"9"}
				return s.request(r)
			}},
		{row: "A body with CONNECT", ours: "error", theirs: "200 ping", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) {
				for line := ""; line != "\r\n"; {
					var err error
					if line, err = c.r.ReadString('\n'); err != nil {
						return
					}
				}
				c.writeText("HTTP/1.1 200 OK\nContent-Length: 4\n\n")
				_, _ = io.CopyN(c, c.r, 4)
			})
			return s.request(mustRequest("CONNECT", s.url, io.MultiReader(strings.NewReader("ping"))))
		}},
		{row: "101 while the request's body is being sent", ours: "error", theirs: "101", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) {
				if _, err := http.ReadRequest(c.r); err == nil {
					c.writeText("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: echo\n\n")
					_, _ = io.Copy(io.Discard, c.r)
				}
			})
			body, feed := io.Pipe()
			defer feed.Close()
			r := mustRequest("POST", s.url, body)
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
			resp, err := s.rt.RoundTrip(r)
			if err != nil {
				return "error"
			}
			resp.Body.Close()
			return fmt.Sprint(resp.StatusCode)
		}},
		{row: "A body of unknown length with GET, HEAD, …", ours: "200 Transfer-Encoding: chunked", theirs: "200 ",
			observe: func(s side) string {
				s.echoLines("Transfer-Encoding", "Content-Length")
				return s.request(mustRequest("GET", s.url, io.MultiReader()))
			}},
		{row: "A final response while the body waits for \"100 Continue\"", ours: "", theirs: "body",
			settings: &http.Transport{ExpectContinueTimeout: time.Minute}, observe: func(s side) string {
				sent := make(chan string, 1)
				s.runScript(func(_ int, c *scripted) {
					if r, err := http.ReadRequest(c.r); err == nil {
						c.writeText("HTTP/1.1 401 No\nContent-Length: 0\n\n")
						b, _ := io.ReadAll(r.Body)
						sent <- string(b)
					}
				})
				r := mustRequest("POST", s.url, strings.NewReader("body"))
				r.Header.Set("Expect", "100-continue")
				if got := s.request(r); got != "401 " {
					return got
				}
				return <-sent
			}},
		{row: "`Request.Cancel`", ours: "200 hello", theirs: "error", observe: func(s side) string {
			cancel := make(chan struct{})
			s.runScript(func(_ int, c *scripted) {
				if c.request() == nil {
					return
				}
				if close(cancel); !s.ours {
					_, _ = c.r.ReadByte() // until it is closed
				}
				c.writeText(okHello)
			})
			r := mustRequest("POST", s.url, nil)
			r.Cancel = cancel //nolint:staticcheck // a deprecated field is one of the differences
			return s.request(r)
		}},
	}
}

func differencesOfResponses() []difference {
	return []difference{
		{row: "Fields in a response's head", ours: "error", theirs: "200 ", observe: func(s side) string {
			s.respondWith("HTTP/1.1 200 OK\n" + strings.Repeat("A: b\n", 1000) + "Content-Length: 0\n\n")
			return s.request(mustRequest("POST", s.url, nil))
		}},
		{row: "Interim responses", ours: "error", theirs: "200 hello", observe: func(s side) string {
			s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 101) + okHello)
			return s.request(mustRequest("POST", s.url, nil))
		}},
		{row: "Interim responses", ours: "error", theirs: "error",
			settings: &http.Transport{MaxResponseHeaderBytes: 1000}, observe: func(s side) string {
				s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 50) + okHello)
				return s.request(mustRequest("POST", s.url, nil))
			}},
		{row: "Interim responses", ours: "200 hello", theirs: "200 hello",
			settings: &http.Transport{MaxResponseHeaderBytes: 1000}, observe: func(s side) string {
				s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 50) + okHello)
				return s.request(mustRequest("POST", s.url,
					nil).WithContext(httptrace.WithClientTrace(s.Context(), new(recorder).trace())))
			}},
		{row: "Body of a 2xx to CONNECT", ours: "writes; early", theirs: "ear", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) { c.respond("HTTP/1.1 200 OK\nContent-Length: 3\n\nearly") })
			resp, err := s.rt.RoundTrip(mustRequest("CONNECT", s.url, nil))
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if _, ok := resp.Body.(io.ReadWriteCloser); ok {
				return "writes; " + string(b)
			}
			return string(b)
		}},
		{row: "Failed requests", ours: "server, connection closed, retry false", theirs: "EOF",
			observe: func(s side) string {
				s.runScript(func(_ int, c *scripted) { c.request() })
				_, err := s.rt.RoundTrip(mustRequest("POST", s.url, nil))
				if failure := (*tare.TransportError)(nil); errors.As(err, &failure) {
					return fmt.Sprintf("%v, %v, retry %v", failure.Side, failure.Kind, failure.CanRetry)
				}
				return err.Error()
			}},
	}
}

func differencesOfConnections() []difference {
	return []difference{
		{row: "A request that waits for a dial", ours: "200 1", theirs: "200 0", observe: waitForDial},
		{row: "A whole response in the first read", ours: "200 0", theirs: "200 1", observe: func(s side) string {
			s.numberConns(okHello)
			resp, err := s.rt.RoundTrip(mustRequest("GET", s.url, nil))
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			return s.connNumber()
		}},
		{row: "A context that ends after that", ours: "200 0", theirs: "200 1", observe: func(s side) string {
			ended := make(chan bool)
			s.runScript(func(n int, c *scripted) {
				for c.respond(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n)) {
				}
				if n == 0 {
					close(ended)
				}
			})
			ctx, cancel := context.WithCancel(s.Context())
			defer cancel()
			resp, err := s.rt.RoundTrip(mustRequest("GET", s.url, nil).WithContext(ctx))
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			if cancel(); !s.ours {
				<-ended
			}
			return s.connNumber()
		}},
		{row: "Closing a body before its end", ours: "200 0", theirs: "200 1", observe: func(s side) string {
			s.numberConns("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n")
			return s.closeFirst()
		}},
		{row: "Closing a body before its end", ours: "200 1", theirs: "200 1", observe: func(s side) string {
			s.numberConns("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n")
			return s.closeFirst()
		}},
		{row: "Connections that carried CONNECT", ours: "200 1", theirs: "200 0", observe: func(s side) string {
			s.numberConns("HTTP/1.1 403 No\nContent-Length: 0\n\n")
			if got := s.request(mustRequest("CONNECT", s.url, nil)); got != "403 " {
				return got
			}
			return s.connNumber()
		}},
		{row: "GetConn and TLS hooks of the first request to an HTTP/2 server", ours: "2 2 HTTP/2.0",
			theirs: "1 1 HTTP/2.0", observe: hooksOfHTTP2},
	}
}

// closeFirst closes the body of a first response, and sends a second request.
func (s side) closeFirst() string {
	resp, err := s.rt.RoundTrip(mustRequest("GET", s.url, nil))
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	return s.connNumber()
}

// waitForDial makes a second request wait for its connection until the first has its response.
func waitForDial(s side) string {
	dial, waits := make(chan bool), make(chan bool)
	var dials atomic.Int32
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			close(waits)
			<-dial
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	if theirs, ok := s.rt.(*http.Transport); ok {
		theirs.DialContext = dialer
	} else {
		s.tr.DialContext = dialer
	}
	asked, answer := make(chan bool), make(chan bool)
	s.runScript(func(n int, c *scripted) {
		for first := n == 0; c.request() != nil; first = false {
			if first {
				close(asked)
				<-answer
			}
			c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n))
		}
	})
	results := [2]chan string{make(chan string, 1), make(chan string, 1)}
	go func() { results[0] <- s.connNumber() }()
	<-asked
	go func() { results[1] <- s.connNumber() }()
	<-waits
	close(answer)
	<-results[0]
	if s.ours {
		close(dial)
		return <-results[1]
	}
	defer close(dial)
	return <-results[1]
}

// hooksOfHTTP2 counts calls of the hooks for connecting.
func hooksOfHTTP2(s side) string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig
	if theirs, ok := s.rt.(*http.Transport); ok {
		theirs.TLSClientConfig, theirs.ForceAttemptHTTP2 = config, true
	} else {
		s.tr.TLSClientConfig, s.tr.ForceAttemptHTTP2 = config, true
	}
	defer s.rt.CloseIdleConnections()
	c := new(recorder)
	resp, err := s.rt.RoundTrip(mustRequest("GET", server.URL,
		nil).WithContext(httptrace.WithClientTrace(s.Context(), c.trace())))
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	count := func(hook string) (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, h := range c.hooks {
			if strings.HasPrefix(h, hook) {
				n++
			}
		}
		return n
	}
	return fmt.Sprintf("%d %d %s", count("GetConn"), count("TLSHandshakeStart"), resp.Proto)
}

func differencesOfSettings() []difference {
	return []difference{
		{row: "`WriteBufferSize`", ours: "1 write", theirs: "several", settings: &http.Transport{WriteBufferSize: 16},
			observe: func(s side) string {
				var writes atomic.Int32
				dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, addr)
					return &writesOf{nc, &writes}, err
				}
				if theirs, ok := s.rt.(*http.Transport); ok {
					theirs.DialContext = dialer
				} else {
					s.tr.DialContext = dialer
				}
				s.respondWith(okHello)
				if got := s.request(mustRequest("POST", s.url, strings.NewReader("body"))); got != "200 hello" {
					return got
				}
				if writes.Load() == 1 {
					return "1 write"
				}
				return "several"
			}},
		{row: "Unix sockets", ours: "200 hello", theirs: "error", observe: func(s side) string {
			there := side{peer: newPeer(s.T, "unix")}
			there.respondWith(okHello)
			if s.ours {
				s.tr.UnixSockets = map[string]string{"socket.invalid": there.l.Addr().String()}
			}
			return s.request(mustRequest("GET", "http://socket.invalid/", nil))
		}},
		{row: "`Dial`, `DialTLS`, `TLSNextProto`, `CancelRequest`, `RegisterProtocol`", ours: "false", theirs: "true",
			observe: func(s side) string {
				has := reflect.TypeOf(s.rt)
				all := true
				for _, field := range []string{"Dial", "DialTLS", "TLSNextProto"} {
					_, ok := has.Elem().FieldByName(field)
					all = all && ok
				}
				_, cancels := has.MethodByName("CancelRequest")
				_, registers := has.MethodByName("RegisterProtocol")
				return fmt.Sprint(all && cancels && registers)
			}},
	}
}

// writesOf counts writes.
type writesOf struct {
	net.Conn
	n *atomic.Int32
}

func (c *writesOf) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
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
