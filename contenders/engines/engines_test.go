package engines_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/contenders/engines"
)

// badServer responds to each request with the result of a function; n counts from 1.
type badServer struct {
	site     *engines.Site
	response func(n int64) string
	n        *atomic.Int64
}

func (l badServer) Close() error { return nil }

func (l badServer) Serve(from net.Listener) error {
	for {
		c, err := from.Accept()
		if err != nil {
			return err
		}
		requests, _ := io.ReadAll(c)
		for range strings.Count(string(requests), "GET ") {
			l.site.Count(true)
			_, _ = io.WriteString(c, l.response(l.n.Add(1)))
		}
		c.Close()
	}
}

const (
	right = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!"
	later = "HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 1970 11:11:11 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!"
	wrong = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, wurld!"
)

// passes reports whether the benchmark accepts a server with these responses.
func passes(t *testing.T, response func(n int64) string) bool {
	t.Helper()
	var n atomic.Int64
	r := testing.Benchmark(func(b *testing.B) {
		engines.ServerGet(b, engines.PerConn(10),
			func(s *engines.Site) engines.Server { return badServer{s, response, &n} })
	})
	return r.N > 0
}

func TestWrongResponsesFail(t *testing.T) {
	for name, response := range map[string]func(n int64) string{
		"always wrong":    func(int64) string { return wrong },
		"wrong later":     func(n int64) string { return map[bool]string{false: right, true: wrong}[n > 2] },
		"nothing":         func(int64) string { return "" },
		"nothing later":   func(n int64) string { return map[bool]string{false: right, true: ""}[n > 2] },
		"two":             func(int64) string { return right + right },
		"two later":       func(n int64) string { return map[bool]string{false: right, true: right + right}[n > 2] },
		"half a response": func(n int64) string { return map[bool]string{false: right, true: right[:40]}[n > 2] },
		"another status":  func(int64) string { return strings.Replace(right, "200 OK", "201 OK", 1) },
		"another type":    func(int64) string { return strings.Replace(right, "text/plain", "text/html ", 1) },
		"no date":         func(int64) string { return strings.Replace(right, "Date:", "Dote:", 1) },
		"chunked": func(int64) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 13, "Hello, world!")
		},
		"no HTTP":         func(int64) string { return "hello" },
		"bytes afterward": func(n int64) string { return map[bool]string{false: right, true: right + "x"}[n > 2] },
	} {
		if passes(t, response) {
			t.Errorf("%s: the benchmark accepted it", name)
		}
	}
}

func TestDatesMayDiffer(t *testing.T) {
	if !passes(t, func(n int64) string { return []string{right, later}[n%2] }) {
		t.Error("responses that differ in their date were rejected")
	}
}
