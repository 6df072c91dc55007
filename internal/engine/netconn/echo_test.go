package netconn_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// echo is the codec of a protocol that is as small as one can be. A request is a line, which is its
// body. A response is its status, its fields, an empty line, and pieces that follow their lengths.
type echo struct {
	exchange.TextHead
	line []byte
}

func (e *echo) Reset() { e.line = nil }

func (e *echo) HasBegun(in []byte) bool { return len(in) > 0 }

func (e *echo) Next(c *exchange.Conn) (x *exchange.Exchange, ok bool) {
	line, _, isComplete := bytes.Cut(c.Input(), []byte("\n"))
	switch {
	case len(line) > c.Config.Limits.Bytes:
		c.Refuse(http.StatusRequestHeaderFieldsTooLarge, "line too long")
		return nil, false
	case !isComplete:
		return nil, true
	}
	c.Consume(len(line) + 1)
	e.line = bytes.Clone(line)
	x = &exchange.Exchange{}
	c.Prepare(x)
	r := &x.Request
	r.Method, r.RequestURI, r.Header, r.Body = "ECHO", "/", http.Header{}, &x.Body
	x.Body.Init(x, exchange.ByChunks, -1, false)
	x.Response.Init(c, x, 1, string(line) != "bye")
	return x, x.SetURL() == nil
}

func (e *echo) ReadBody(_ *exchange.Body, p []byte) (int, error) {
	n := copy(p, e.line)
	if e.line = e.line[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (e *echo) HasArrived(*exchange.Body, bool) bool { return true }

func (e *echo) Refuse(c *exchange.Conn, status int, text string) {
	c.Out = appendPiece(append(strconv.AppendInt(c.Out, int64(status), 10), "\n\n"...), []byte(text))
}

func appendPiece(out, p []byte) []byte {
	return append(append(strconv.AppendInt(out, int64(len(p)), 10), '\n'), p...)
}

func (e *echo) BeginHead(w *exchange.Response, code int) {
	w.Conn.Out = append(strconv.AppendInt(w.Conn.Out, int64(code), 10), '\n')
}

func (e *echo) Delimit(w *exchange.Response, f exchange.ServerFields) {
	w.DrainRequestBody()
	if f.Length >= 0 {
		w.Conn.Out = http1.AppendLength(w.Conn.Out, f.Length)
	}
}

func (e *echo) Data(w *exchange.Response, p []byte) error {
	w.Conn.Out = appendPiece(w.Conn.Out, p)
	return w.Conn.Flush()
}

func (e *echo) End(w *exchange.Response) { w.Conn.Out = append(w.Conn.Out, "0\n"...) }

func (e *echo) Flush(c *exchange.Conn) error { return c.Send() }

// A protocol needs no more than a Parser and a Sink.
func TestServesAnyProtocol(t *testing.T) {
	config := &netconn.Config{
		Exchanges: &exchange.Config{
			Server:      &exchange.ServerState{Logf: t.Logf, KeepAlivesDisabled: new(atomic.Bool)},
			Protocol:    exchange.Protocol{NewCodec: func() exchange.Codec { return new(echo) }},
			BaseContext: context.Background(), HeadTimeout: time.Minute, Limits: http1.Limits{Bytes: 10 << 10},
			ServesHTTP1: true,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Method", r.Method)
				_, _ = io.Copy(w, r.Body)
			}),
		},
		Untrack: func(*netconn.Conn) {},
	}
	config.Start()
	defer config.Stop()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	long := strings.Repeat("x", 9<<10)
	for _, test := range []struct{ in, want string }{
		{"hello\n\nbye\nignored\n", "200\nMethod: ECHO\nContent-Length: 5\n\n5\nhello0\n" +
			"200\nMethod: ECHO\nContent-Length: 0\n\n0\n" + "200\nMethod: ECHO\nContent-Length: 3\n\n3\nbye0\n"},
		{long + "\n", "200\nMethod: ECHO\n\n9216\n" + long + "0\n"},
		{long + long, "431\n\n50\n431 Request Header Fields Too Large: line too long"},
	} {
		client := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
		nc := testkit.Value(l.Accept())(t)
		netconn.New(config, nc, context.Background()).Serve()
		for in := test.in; in != ""; { // in parts
			n := min(len(in), 7000)
			_, _ = io.WriteString(client, in[:n])
			in = in[n:]
		}
		_ = client.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(client)
		if client.Close(); err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != test.want {
			t.Errorf("%.20q: got %.200q, %v", test.in, got, err)
		}
	}
}
