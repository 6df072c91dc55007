package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// site is a server of a test, with the Client that sends requests to it.
type site struct {
	*testing.T
	speaks speaks
	config Config // may be changed before the first request
	listen func() net.Listener

	once   sync.Once
	client *Client
}

// speaks is a protocol: how a test makes a Client and a server for it.
type speaks struct {
	name      string
	begins    string // the first byte of a response
	newClient func(*Config) *Client
	serve     func(net.Conn) speaker
}

// speaker is a server's end of a connection.
type speaker interface {
	net.Conn
	// head receives a request up to its body. It returns the request's X-Id, and false at the end
	// of the connection.
	head() (id string, ok bool)
	// part receives a part of the request's body: "" at its end, and false if the connection ends
	// before.
	part() (text string, ok bool)
	begin()           // sends the head of a response
	send(text string) // sends a part of its body
	end()
	respond(text string) // sends a response in one write
}

// receive receives a request. It returns its X-Id and its body, and false at the end of the
// connection.
func receive(s speaker) (id, body string, ok bool) {
	if id, ok = s.head(); !ok {
		return "", "", false
	}
	for {
		text, ok := s.part()
		if !ok || text == "" {
			return id, body, ok
		}
		body += text
	}
}

// serveAll responds to all requests.
func serveAll(s speaker, text string) {
	for _, _, ok := receive(s); ok; _, _, ok = receive(s) {
		s.respond(text)
	}
}

// http1Speaker is a speaker of HTTP/1.1.
type http1Speaker struct {
	net.Conn
	r    *bufio.Reader
	body io.Reader
}

func newHTTP1Speaker(nc net.Conn) speaker { return &http1Speaker{Conn: nc, r: bufio.NewReader(nc)} }

func (s *http1Speaker) head() (id string, ok bool) {
	r, err := http.ReadRequest(s.r)
	if err != nil {
		return "", false
	}
	s.body = r.Body
	return r.Header.Get("X-Id"), true
}

func (s *http1Speaker) part() (text string, ok bool) {
	b := make([]byte, 64<<10)
	n, err := s.body.Read(b)
	return string(b[:n]), err == nil || err == io.EOF // http.Request wraps no end
}

func (s *http1Speaker) begin() {
	_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
}

func (s *http1Speaker) send(text string) { fmt.Fprintf(s, "%x\r\n%s\r\n", len(text), text) }

func (s *http1Speaker) end() { _, _ = io.WriteString(s, "0\r\n\r\n") }

func (s *http1Speaker) respond(text string) {
	fmt.Fprintf(s, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

// networks are the kinds of connections. "unix-input" is a unix socket as proxies use it.
var networks = []string{"tcp", "tls", "unix", "unix-input", "memory"}

// overAll runs a test for each protocol over each kind of connection.
func overAll(t *testing.T, test func(*site)) {
	for _, protocol := range protocols() {
		for _, network := range networks {
			t.Run(protocol.name+"/"+network, func(t *testing.T) { test(newSite(t, protocol, network)) })
		}
	}
}

func protocols() []speaks {
	return []speaks{{"http1", "H", New, newHTTP1Speaker}, {"fastcgi", "\x01", newFastCGIOf, newFastCGISpeaker}}
}

func newSite(t *testing.T, protocol speaks, network string) *site {
	s := &site{T: t, speaks: protocol}
	nw := new(testkit.Network)
	var dialed net.Addr
	var server, client *tls.Config
	if network == "tls" {
		server, client = tlstest.Configs()
	}
	s.listen = func() net.Listener {
		kind, at := "tcp", "127.0.0.1:0"
		switch network {
		case "memory":
			return nw.Listen()
		case "unix", "unix-input":
			kind, at = "unix", t.TempDir()+"/s"
		}
		l := listen(t, kind, at)
		if dialed = l.Addr(); network == "tls" {
			return tls.NewListener(l, server)
		}
		return l
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if network == "memory" {
			return nw.Dial()
		}
		nc, err := new(net.Dialer).DialContext(ctx, dialed.Network(), dialed.String())
		switch {
		case err != nil:
			return nil, err
		case network == "tls":
			tc := tls.Client(nc, client)
			return tc, tc.HandshakeContext(ctx)
		case network == "unix-input":
			return inputOnly(nc.(*net.UnixConn)), nil
		}
		return nc, nil
	}
	s.config.Settings = &http.Transport{MaxIdleConnsPerHost: 1, DialContext: dial}
	return s
}

// serve runs a script on each connection, which are numbered from 0, and closes it afterwards. At
// the end of the test the Client must have no connection left.
func (s *site) serve(script func(n int, c speaker)) {
	l := s.listen()
	wait := testkit.Accept(l, func(n int, nc net.Conn) { script(n, s.speaks.serve(nc)) })
	s.Cleanup(func() {
		testkit.WaitFor(s.T, "all connections to end", func() bool {
			s.the().CloseIdleConnections() // the sender of a body may return a connection late
			return s.the().Count() == Count{}
		})
		l.Close()
		wait()
	})
}

// the returns the Client.
func (s *site) the() *Client {
	s.once.Do(func() { s.client = s.speaks.newClient(&s.config) })
	return s.client
}

// request returns a request whose ContentLength is that of body, unless it is hidden.
func (s *site) request(method string, body io.Reader) *http.Request {
	return request(s.T, method, "http://host:1/", body)
}

// do sends a request and returns the response's body.
func (s *site) do(r *http.Request) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	resp, err := s.the().RoundTrip(r.WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// must sends a request that must get the wanted body.
func (s *site) must(r *http.Request, want string) {
	s.Helper()
	if got, err := s.do(r); got != want || err != nil {
		s.Fatalf("%s: %q, %v; want %q", r.Method, got, err, want)
	}
}

// hidden returns a reader of text whose length is not known.
func hidden(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }

// newFastCGIOf returns a Client that sends the method and the fields of a request.
func newFastCGIOf(config *Config) *Client {
	return NewFastCGI(config, &FastCGI{Describe: func(p *Params, r *http.Request, _ int64) error {
		p.Set("REQUEST_METHOD", r.Method)
		for name, values := range r.Header {
			if err := p.SetField(name, values); err != nil {
				return err
			}
		}
		return nil
	}})
}

// fastcgiSpeaker is a speaker of FastCGI.
type fastcgiSpeaker struct {
	net.Conn
	records  wire.Reader
	from, to int
	in       [64 << 10]byte
}

func newFastCGISpeaker(nc net.Conn) speaker { return &fastcgiSpeaker{Conn: nc} }

// next returns the next piece of a record, or false at the end of the connection.
func (s *fastcgiSpeaker) next() (wire.Piece, bool) {
	for {
		piece, n, err := s.records.Next(s.in[s.from:s.to])
		s.from += n
		if err != nil || piece.Type != 0 {
			return piece, err == nil && piece.Type != wire.AbortRequest
		}
		s.to = copy(s.in[:], s.in[s.from:s.to])
		s.from = 0
		if n, err = s.Read(s.in[s.to:]); n == 0 || err != nil {
			return wire.Piece{}, false
		}
		s.to += n
	}
}

func (s *fastcgiSpeaker) head() (id string, ok bool) {
	var list []byte
	for {
		piece, ok := s.next()
		switch {
		case !ok:
			return "", false
		case piece.Type == wire.Params && piece.Ends():
			for at := 0; at < len(list); {
				pair, next, err := wire.NextPair(list, at)
				if err != nil {
					return "", false
				}
				if string(pair.Name.In(list)) == "HTTP_X_ID" {
					id = string(pair.Value.In(list))
				}
				at = next
			}
			return id, true
		case piece.Type == wire.Params:
			list = append(list, piece.Content...)
		}
	}
}

func (s *fastcgiSpeaker) part() (text string, ok bool) {
	piece, ok := s.next()
	return string(piece.Content), ok && piece.Type == wire.Stdin
}

func (s *fastcgiSpeaker) begin() { s.send("Status: 200\n\n") }

func (s *fastcgiSpeaker) send(text string) {
	_, _ = s.Write(wire.AppendStream(nil, wire.Stdout, 1, []byte(text)))
}

func (s *fastcgiSpeaker) end() {
	_, _ = s.Write(wire.AppendEnd(wire.AppendStreamEnd(nil, wire.Stdout, 1), 1, wire.End{}))
}

func (s *fastcgiSpeaker) respond(text string) {
	b := wire.AppendStream(nil, wire.Stdout, 1, fmt.Appendf(nil, "Content-Length: %d\n\n%s", len(text), text))
	_, _ = s.Write(wire.AppendEnd(b, 1, wire.End{}))
}
