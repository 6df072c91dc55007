package front_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	closedHead  = "HTTP/1.0 200 OK\r\n\r\n"
	oneChunk    = "6\r\nevent\n\r\n"
	firstEvents = 4
)

// streamEnd is an upstream's stream, which begins with events. Each one is sent after the client has
// received those before. Its end is sent in pieces.
type streamEnd struct {
	head, event string
	pieces      []string
	reset       bool // the connection is reset, not closed
}

// A stream ends for the client as its upstream's does, and alike whether a loop forwards it or the
// handler's goroutine, which stays if another handler has called the front.
func TestStreamsEndAsTheirUpstreams(t *testing.T) {
	for name, end := range map[string]streamEnd{
		"last chunk":              {chunkedHead, oneChunk, []string{"0\r\n\r\n"}, false},
		"last chunk in pieces":    {chunkedHead, oneChunk, []string{"4\r\nla", "st", "\r", "\n0", "\r", "\n\r", "\n"}, false},
		"with the last event":     {chunkedHead, oneChunk, []string{oneChunk + oneChunk + "0\r\n\r\n"}, false},
		"trailer":                 {chunkedHead, oneChunk, []string{"0\r\nX-", "End: 1\r\n", "\r\n"}, false},
		"bytes after the end":     {chunkedHead, oneChunk, []string{"0\r\n\r\nHTTP/1.1 200 OK\r\n"}, false},
		"large event":             {chunkedHead, oneChunk, []string{"c350\r\n" + pattern(50_000), "\r\n0\r\n\r\n"}, false},
		"malformed chunk":         {chunkedHead, oneChunk, []string{oneChunk + "x\r\n"}, false},
		"malformed later":         {chunkedHead, oneChunk, []string{"6\r\nevent\n", "event\n"}, false},
		"closed":                  {chunkedHead, oneChunk, nil, false},
		"closed within a chunk":   {chunkedHead, oneChunk, []string{"6\r\nev"}, false},
		"reset":                   {chunkedHead, oneChunk, nil, true},
		"end by the connection":   {closedHead, "event\n", []string{"last"}, false},
		"reset instead of an end": {closedHead, "event\n", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var results []string
			for _, how := range []string{"loop", "handler"} {
				t.Run(how, func(t *testing.T) { results = append(results, resultOf(t, end, how == "loop")) })
			}
			if len(results) == 2 && results[0] != results[1] {
				t.Errorf("on a loop: %s\nby the handler: %s", results[0], results[1])
			}
		})
	}
}

// resultOf returns what a client has received of a stream, and of another request on its connection.
func resultOf(t *testing.T, end streamEnd, outlasts bool) string {
	noLeaks(t)
	received := make(chan struct{}, firstEvents)
	up := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer up.Close()
	go serveStream(up, end, received)
	log := filepath.Join(t.TempDir(), "log")
	nc := dial(t, "tcp", serveStreams(t, up, "access_log "+log+" end;", outlasts), "GET / HTTP/1.1\r\nHost: front.test\r\n\r\n")
	defer nc.Close()
	in := bufio.NewReader(nc)
	resp := testkit.Value(http.ReadResponse(in, nil))(t)
	var body strings.Builder
	var err error
	for b, events := make([]byte, 100_000), 1; err == nil; {
		var n int
		n, err = resp.Body.Read(b)
		for body.Write(b[:n]); events <= min(body.Len()/len("event\n"), firstEvents); events++ {
			received <- struct{}{}
		}
	}
	result := fmt.Sprintf("%q, complete: %t, trailer %v, log %q", body.String(), errors.Is(err, io.EOF), resp.Trailer,
		awaitLines(t, log, 1))
	_, _ = io.WriteString(nc, "GET /next HTTP/1.1\r\nHost: front.test\r\n\r\n")
	if resp, err = http.ReadResponse(in, nil); err == nil {
		next, _ := io.ReadAll(resp.Body)
		result += ", next: " + string(next)
	}
	return result
}

// serveStreams returns the address of a front that forwards streams, by loops or by handlers.
func serveStreams(t *testing.T, up net.Listener, directives string, onLoops bool) string {
	t.Helper()
	var h http.Handler = newFront(t, parseConf(t, `log_format end "$status $body_bytes_sent $request_completion";`,
		fmt.Sprintf("proxy_buffering off; %s location / { proxy_pass http://%s; } location = /next { access_log off; return 200 next; }",
			directives, up.Addr())))
	if !onLoops {
		h = http.HandlerFunc(h.ServeHTTP)
	}
	return serveOnTare(t, h)
}

// A client that receives nothing is disconnected after send_timeout, also if nobody waits for it.
func TestStreamsOfLateClientsEnd(t *testing.T) {
	for _, how := range []string{"loop", "handler"} {
		t.Run(how, func(t *testing.T) {
			noLeaks(t)
			up := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer up.Close()
			client := dial(t, "tcp", serveStreams(t, up, "send_timeout 100ms;", how == "loop"),
				"GET / HTTP/1.1\r\nHost: front.test\r\n\r\n")
			nc := testkit.Value(up.Accept())(t)
			defer nc.Close()
			must(t, nc.SetDeadline(time.Now().Add(maxWait)))
			must(t, readHead(nc))
			_, err := io.WriteString(nc, closedHead)
			for in, n := bufio.NewReader(client), 0; n < firstEvents; n++ {
				_, _ = io.WriteString(nc, "event\n")
				for line := ""; line != "event\n"; {
					line = testkit.Value(in.ReadString('\n'))(t)
				}
			}
			for err == nil {
				_, err = io.WriteString(nc, pattern(1000))
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the stream goes on")
			}
		})
	}
}

// serveStream responds to one request.
func serveStream(l net.Listener, end streamEnd, received <-chan struct{}) {
	nc, err := l.Accept()
	if err != nil {
		return
	}
	defer nc.Close()
	_ = readHead(nc)
	_, _ = io.WriteString(nc, end.head)
	for range firstEvents {
		_, _ = io.WriteString(nc, end.event)
		<-received
	}
	for _, piece := range end.pieces {
		_, _ = io.WriteString(nc, piece)
	}
	if end.reset {
		_ = nc.(*net.TCPConn).SetLinger(0)
	}
}
