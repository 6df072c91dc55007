package front_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
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
	up := testkit.ServeTCP(t, func(nc net.Conn) {
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
	})
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
func serveStreams(t *testing.T, up, directives string, onLoops bool) string {
	t.Helper()
	var h http.Handler = confFront(t, `log_format end "$status $body_bytes_sent $request_completion";`,
		"proxy_buffering off; location = /next { access_log off; return 200 next; } "+directives+passTo(up), nil)
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
			received, ended := make(chan struct{}, firstEvents), make(chan error, 1)
			up := testkit.ServeTCP(t, func(nc net.Conn) {
				_ = nc.SetDeadline(time.Now().Add(maxWait))
				_ = readHead(nc)
				_, err := io.WriteString(nc, closedHead)
				for n := 0; err == nil; n++ {
					if n < firstEvents {
						_, err = io.WriteString(nc, "event\n")
						<-received
					} else {
						_, err = io.WriteString(nc, pattern(1000))
					}
				}
				ended <- err
			})
			client := dial(t, "tcp", serveStreams(t, up, "send_timeout 100ms;", how == "loop"),
				"GET / HTTP/1.1\r\nHost: front.test\r\n\r\n")
			for in, n := bufio.NewReader(client), 0; n < firstEvents; n++ {
				for line := ""; line != "event\n"; {
					line = testkit.Value(in.ReadString('\n'))(t)
				}
				received <- struct{}{}
			}
			testkit.Equal(t, errors.Is(testkit.Receive(t, ended), os.ErrDeadlineExceeded), false, "the stream goes on")
		})
	}
}

// Streams are forwarded completely and in order. The goroutine or the loop that receives a piece
// sends it, or their own goroutine. There are clients that read slowly, that leave, and upstreams
// that abort.
func TestStreamsAreForwardedInOrder(t *testing.T) {
	testkit.Long(t, "it transfers much")
	for _, protocol := range []string{"1.1", "2"} {
		t.Run("HTTP/"+protocol, func(t *testing.T) { testStreams(t, protocol) })
	}
}

func testStreams(t *testing.T, protocol string) {
	noLeaks(t)
	text := pattern(600_000)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, most := text, 20_000
		if strings.Contains(r.URL.Path, "small") {
			rest, most = rest[:100_000], 300
		}
		for len(rest) > 0 {
			n := min(1+rand.IntN(most), len(rest))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			rest = rest[n:]
			if strings.Contains(r.URL.Path, "aborted") && len(rest) < 50_000 {
				panic(http.ErrAbortHandler)
			}
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	log := filepath.Join(t.TempDir(), "log")
	a := serveByTare(t, confFront(t, `log_format sent "$body_bytes_sent $request_uri";`,
		fmt.Sprintf("access_log %s sent; proxy_http_version %s; proxy_buffering off; location / { proxy_pass http://%s; }",
			log, protocol, unencryptedHTTP2(t, h).Listener.Addr()), nil))
	transport := a.client.Transport.(*http.Transport)
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(protocol != "2")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "2")
	var all sync.WaitGroup
	for i := range 60 {
		path := []string{"/large", "/small", "/small/slow", "/large/slow", "/small/aborted", "/small/left"}[i%6]
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", "http://front.test"+path, nil)
			testkit.Check(t, err)
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Error(path, err)
				return
			}
			defer resp.Body.Close()
			in, want := io.Reader(resp.Body), text
			if strings.Contains(path, "small") {
				want = want[:100_000]
			}
			if strings.HasSuffix(path, "slow") {
				in = onlyPieces{resp.Body}
			}
			if strings.HasSuffix(path, "left") {
				_, _ = io.CopyN(io.Discard, in, 1000)
				return
			}
			got, err := io.ReadAll(in)
			isAborted := strings.HasSuffix(path, "aborted")
			switch {
			case ctx.Err() != nil, !strings.HasPrefix(want, string(got)), isAborted != (err != nil):
				t.Errorf("%s: %d bytes, %v", path, len(got), errors.Join(err, ctx.Err()))
			case !isAborted && (len(got) != len(want) || resp.Trailer.Get("Grpc-Status") != "0"):
				t.Errorf("%s: %d bytes, trailer %v", path, len(got), resp.Trailer)
			}
		})
	}
	all.Wait()
	for _, line := range awaitLines(t, log, 60) {
		var sent int
		var path string
		if _, err := fmt.Sscan(line, &sent, &path); err != nil || path == "/large" && sent != len(text) ||
			path == "/small" && sent != 100_000 {
			t.Errorf("log: %q", line)
		}
	}
}

// onlyPieces reads at most 500 bytes at a time.
type onlyPieces struct{ io.Reader }

func (r onlyPieces) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(len(b), 500)]) }

// Without buffering, the part of a body that has arrived is in the same write as the head, and the end
// of the body in that of its last bytes: END_STREAM is a flag of their frame.
func TestPiecesAreSentWithWhatTheyFollow(t *testing.T) {
	testkit.Long(t, "it compares with nginx")
	const block = `location / { proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://%[1]s; }
		location /fcgi { fastcgi_request_buffering off; fastcgi_pass %[1]s; }
		location /grpc { grpc_pass %[1]s; }`
	reads := make(chan string)
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		for b := make([]byte, 64<<10); ; {
			n, err := nc.Read(b)
			select {
			case reads <- string(b[:n]):
			case <-t.Context().Done():
				return
			}
			if err != nil {
				return
			}
			if strings.HasPrefix(string(b[:n]), wire.Preface) {
				_, _ = nc.Write(wire.AppendSettings(nil))
			}
		}
	})
	data := func(flags wire.Flags, content string) string {
		return string(wire.AppendFrameHeader(nil, wire.FrameHeader{Length: uint32(len(content)), Type: wire.Data,
			Flags: flags, StreamID: 1})) + content
	}
	const fields, last = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "3\r\nend\r\n0\r\n\r\n"
	const sized = " HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nbegin"
	const beginRequest, endOfBody = "\x01\x01\x00\x01", "\x01\x05\x00\x01\x00\x00\x00\x00" // records
	head := wire.AppendRequest(wire.AppendHeaders(nil, 1), &wire.RequestFields{Method: http.MethodPost,
		Scheme: "http", Authority: "x", Path: "/grpc"})
	http2 := wire.Preface + string(wire.AppendSettings(nil)) + string(wire.EndBlock(head, 0, wire.MinMaxFrameSize))
	for name, start := range map[string]func() (socket, http2Socket string){
		"tare": func() (string, string) {
			socket := serveByTare(t, confFront(t, "", fmt.Sprintf(block, to), nil)).socket
			return socket, socket
		},
		"nginx": func() (string, string) {
			_, dir := serveNginx(t, "", "listen unix:DIR/2 http2; "+fmt.Sprintf(block, to))
			return filepath.Join(dir, "s"), filepath.Join(dir, "2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket, http2Socket := start()
			for _, test := range []struct{ socket, first, second, before, after string }{ // beside the pieces
				{socket, "POST /" + sized, "end", "POST / ", ""},
				{socket, "POST /" + fields, last, "POST / ", last},
				{socket, "POST /fcgi" + sized, "end", beginRequest, endOfBody},
				{socket, "POST /fcgi" + fields, last, "", endOfBody},
				{socket, "POST /grpc" + fields, last, "", data(wire.EndStream, "end")[:5]}, // without the stream
				{http2Socket, http2 + data(0, "begin"), data(wire.EndStream, "end"), "", data(wire.EndStream, "end")[:5]},
			} {
				nc := dial(t, "unix", test.socket, "")
				for _, part := range [][3]string{{test.first, "begin", test.before}, {test.second, "end", test.after}} {
					testkit.Send(t, nc, part[0])
					var got string
					for !strings.Contains(got, part[1]) {
						got = <-reads
					}
					testkit.Contains(t, got, part[2], test.first[:11], "with", part[1])
				}
				nc.Close()
			}
		})
	}
}
