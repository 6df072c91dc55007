package fcgi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// webServer is a web server's connection to an application, as far as these tests need one.
type webServer struct {
	testing.TB
	net.Conn
	reader wire.Reader
	in     []byte
}

// reply is an application's response.
type reply struct{ out, err string }

// dialServer connects to an application, with a deadline in case that hangs.
func dialServer(t testing.TB, at net.Addr) *webServer {
	t.Helper()
	c, err := net.Dial(at.Network(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &webServer{TB: t, Conn: c}
}

// oneRequest returns a request with the given parameters, besides the common ones.
func oneRequest(path, body string, pairs ...string) string {
	b := wire.AppendBegin(nil, 1, wire.Begin{Role: wire.Responder, Keep: true})
	var list []byte
	pairs = slices.Concat([]string{"REQUEST_METHOD", "POST", "SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_URI", path,
		"CONTENT_LENGTH", fmt.Sprint(len(body))}, pairs)
	for pair := range slices.Chunk(pairs, 2) {
		list = wire.AppendPair(list, pair[0], pair[1])
	}
	b = wire.AppendStreamEnd(wire.AppendStream(b, wire.Params, 1, list), wire.Params, 1)
	return string(wire.AppendStreamEnd(wire.AppendStream(b, wire.Stdin, 1, []byte(body)), wire.Stdin, 1))
}

// reply reads a response to its end.
func (w *webServer) reply() (r reply, err error) {
	room := make([]byte, 4<<10)
	for {
		p, n, err := w.reader.Next(w.in)
		if err != nil {
			return r, err
		}
		switch w.in = w.in[n:]; p.Type {
		case 0:
			n, err := w.Read(room)
			if err != nil {
				return r, err
			}
			w.in = append(w.in, room[:n]...)
		case wire.Stdout:
			r.out += string(p.Content)
		case wire.Stderr:
			r.err += string(p.Content)
		case wire.EndRequest:
			return r, nil
		}
	}
}

// request sends a request and returns the response.
func (w *webServer) request(path, body string, pairs ...string) reply {
	w.Helper()
	if _, err := io.WriteString(w, oneRequest(path, body, pairs...)); err != nil {
		w.Fatal(err)
	}
	r, err := w.reply()
	if err != nil {
		w.Fatalf("%s: %v after %+v", path, err, r)
	}
	return r
}

// body returns the part of a response behind its head.
func (r reply) body() string {
	_, body, _ := strings.Cut(r.out, "\r\n\r\n")
	return body
}

// runServer serves until the test ends, and then checks that nothing is left.
func runServer(t testing.TB, s *fcgi.Server, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return l.Addr()
}
