package engine_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// server is the common interface of net/http's server and this engine's.
type server interface {
	Serve(net.Listener) error
	Close() error
}

// makers are the two servers that must behave the same in every case below.
var makers = map[string]func(*http.Server) server{
	"net/http": func(s *http.Server) server { return s },
	"tare":     func(s *http.Server) server { return engine.New(s) },
}

// transcript sends the pieces to a server, each when the server has processed those before. It
// returns what came back in a comparable form, with what the server logged.
func transcript(t *testing.T, newServer func(*http.Server) server, settings *http.Server, pieces []string) string {
	var response, logged bytes.Buffer
	var closed bool
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		settings.ErrorLog = log.New(&logged, "", 0)
		s := newServer(settings)
		done := goServe(s, nw.Listen())
		c, err := nw.Dial()
		testkit.Must(t, err)
		collect := func() {
			synctest.Wait()
			data, eof := c.Received()
			response.Write(data)
			closed = closed || eof
		}
		for _, p := range pieces {
			if p == closeWrite {
				c.CloseWrite()
			} else if _, err := io.WriteString(c, p); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
			collect()
		}
		pass(time.Second) // of the bubble's time: servers linger
		collect()
		s.Close()
		c.Close()
		<-done
	})
	return describe(response.Bytes(), closed, strings.Contains(strings.Join(pieces, ""), "HEAD ")) +
		describeLog(logged.String())
}

// closeWrite, as a piece, closes the client's sending side.
const closeWrite = "\x00close write"

func goServe(s server, l net.Listener) chan error {
	done := make(chan error, 1)
	if secure, ok := l.(secureListener); ok {
		if s, ok := s.(*engine.Server); ok {
			go func() { done <- s.ServeTLS(secure.Listener, secure.config) }()
			return done
		}
		l = tls.NewListener(secure.Listener, secure.config)
	}
	go func() { done <- s.Serve(l) }()
	return done
}

// describe parses responses as a client would.
func describe(response []byte, closed, head bool) string {
	var s strings.Builder
	r := bufio.NewReader(bytes.NewReader(response))
	request := &http.Request{Method: http.MethodGet}
	if head {
		request.Method = http.MethodHead
	}
	for {
		if _, err := r.Peek(1); err != nil {
			break
		}
		resp, err := http.ReadResponse(r, request)
		if err != nil {
			rest, _ := io.ReadAll(r)
			fmt.Fprintf(&s, "not a response (%v): %q\n", err, rest)
			break
		}
		body, err := io.ReadAll(resp.Body)
		if refusal := fmt.Sprint(resp.Status); resp.Close && strings.HasPrefix(string(body), refusal) {
			body = []byte(refusal) // the text is the server's own
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
		}
		resp.Header.Del("Date")
		fmt.Fprintf(&s, "%s %s length=%d coding=%v close=%v\n", resp.Proto, resp.Status, resp.ContentLength,
			resp.TransferEncoding, resp.Close)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			fmt.Fprintf(&s, "  %s: %q\n", name, resp.Header[name])
		}
		fmt.Fprintf(&s, "  body %q %v trailer %v\n", shorten(body), err, resp.Trailer)
	}
	fmt.Fprintf(&s, "closed=%v\n", closed)
	return s.String()
}

func shorten(b []byte) string {
	if len(b) > 3000 {
		return fmt.Sprintf("%s...%d bytes", b[:200], len(b))
	}
	return string(b)
}

// describeLog removes stack traces and source lines from what was logged.
func describeLog(logged string) string {
	var s strings.Builder
	for line := range strings.Lines(logged) {
		if line, ok := strings.CutPrefix(line, "http: "); ok {
			line, _, _ = strings.Cut(line, " from ")
			fmt.Fprintf(&s, "log %s\n", strings.TrimSpace(line))
		}
	}
	return s.String()
}
