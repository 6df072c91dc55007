package front_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// switching is the head of the response that begins a tunnel.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"

// tunnelEnd is how a tunnel is used and ends. The two sides run at the same time.
type tunnelEnd struct {
	client, upstream func(nc net.Conn, in io.Reader) error
	sent             int // bytes of the body in the log; -1 if it is not known
}

// halfCloser is a connection whose sending direction can end.
type halfCloser interface{ CloseWrite() error }

// sendPieces writes a text in pieces of any size.
func sendPieces(to io.Writer, text string) error {
	for len(text) > 0 {
		n := min(1+rand.IntN(40_000), len(text))
		if _, err := io.WriteString(to, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// expect reads to the end, in pieces of a size, and compares.
func expect(in io.Reader, text string, size int) error {
	var got []byte
	b := make([]byte, size)
	for {
		n, err := in.Read(b)
		if got = append(got, b[:n]...); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("after %d bytes: %w", len(got), err)
		}
	}
	if string(got) != text {
		return fmt.Errorf("%d bytes, want %d, or they differ", len(got), len(text))
	}
	return nil
}

// awaitEnd reads to the end, or to an error other than a timeout.
func awaitEnd(_ net.Conn, in io.Reader) error {
	if _, err := io.Copy(io.Discard, in); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func tunnelEnds() map[string]tunnelEnd {
	long, short := pattern(4<<20), pattern(300_000)
	slowly := func(text string) func(net.Conn, io.Reader) error {
		return func(nc net.Conn, in io.Reader) error {
			if c, ok := nc.(*net.TCPConn); ok {
				_ = c.SetReadBuffer(256 << 10)
			}
			return expect(in, text, 1<<10)
		}
	}
	receives := func(text string) func(net.Conn, io.Reader) error {
		return func(_ net.Conn, in io.Reader) error { return expect(in, text, 32<<10) }
	}
	sends := func(text string) func(net.Conn, io.Reader) error {
		return func(nc net.Conn, _ io.Reader) error { return sendPieces(nc, text) }
	}
	halfCloses := func(nc net.Conn, text string) error {
		return errors.Join(sendPieces(nc, text), nc.(halfCloser).CloseWrite())
	}
	resets := func(nc net.Conn, in io.Reader) error {
		_, err := io.ReadFull(in, make([]byte, 5))
		if c, ok := nc.(*tls.Conn); ok {
			nc = c.NetConn()
		}
		return errors.Join(err, nc.(*net.TCPConn).SetLinger(0))
	}
	greets := func(nc net.Conn, in io.Reader) error {
		_, err := io.WriteString(nc, "hello")
		return errors.Join(err, awaitEnd(nc, in))
	}
	ended := make(chan struct{})
	fills := func(nc net.Conn, _ io.Reader) error {
		b := make([]byte, 1<<20)
		for {
			if _, err := nc.Write(b); err != nil {
				ended <- struct{}{}
				return nil
			}
		}
	}
	stalls := func(net.Conn, io.Reader) error {
		<-ended
		return nil
	}
	return map[string]tunnelEnd{
		"upstream closes": {receives(short), sends(short), len(short)},
		"client closes":   {sends(short), receives(short), 0},
		"slow client":     {slowly(long), sends(long), len(long)},
		"slow upstream":   {sends(long), slowly(long), 0},
		"half close": {
			func(nc net.Conn, in io.Reader) error {
				return errors.Join(halfCloses(nc, short), expect(in, short, 32<<10))
			},
			func(nc net.Conn, in io.Reader) error {
				return errors.Join(expect(in, short, 32<<10), sendPieces(nc, short))
			}, len(short)},
		"both send": {
			func(nc net.Conn, in io.Reader) error {
				sent := make(chan error, 1)
				go func() { sent <- halfCloses(nc, long) }()
				return errors.Join(expect(in, short, 100), <-sent)
			},
			func(nc net.Conn, in io.Reader) error {
				sent := make(chan error, 1)
				go func() { sent <- sendPieces(nc, short) }()
				return errors.Join(expect(in, long, 32<<10), <-sent)
			}, len(short)},
		"client resets":   {resets, greets, 5},
		"upstream resets": {greets, resets, 0},
		"both close":      {sends("hello"), sends("hello"), -1},
		"silence":         {awaitEnd, awaitEnd, 0},
		"client stalls":   {stalls, fills, -1},
		"upstream stalls": {fills, stalls, 0},
	}
}

// However a tunnel ends, no byte that was sent before is lost, both connections are closed, its
// place in a limit is free, and it is logged once: with plain connections, which a loop relays, and
// with TLS. A failure of the upstream is logged as an error.
func TestTunnelsEndAsTheirConnections(t *testing.T) {
	noLeaks(t)
	for _, server := range []string{"plain", "unix", "wrapped", "net/http", "TLS"} {
		t.Run(server, func(t *testing.T) {
			if server != "plain" && server != "net/http" {
				testkit.Long(t, "it waits for logs, as two others do")
			}
			t.Parallel() // each line of a log comes late
			testTunnels(t, server)
		})
	}
}

func testTunnels(t *testing.T, server string) {
	ends := tunnelEnds()
	if server == "unix" {
		delete(ends, "upstream resets")
	}
	results := make(chan error, len(ends)) // a test that ends early leaves some
	serveUpstream := func(nc net.Conn) {
		in := bufio.NewReader(nc)
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_ = nc.SetDeadline(time.Now().Add(maxWait))
		_, _ = io.WriteString(nc, switching)
		err = ends[r.Header.Get("X-End")].upstream(nc, in)
		nc.Close()
		results <- err
	}
	to := testkit.ServeTCP(t, serveUpstream)
	unix := filepath.Join(testkit.ShortDir(t), "u")
	testkit.ServeUnix(t, unix, serveUpstream)
	logFile, errorLog := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "errors")
	var h http.Handler = confFront(t, `
		log_format tunnels "$status $upstream_http_upgrade $body_bytes_sent $bytes_sent $upstream_bytes_received";
		limit_conn_zone $server_name zone=c:1m;`, fmt.Sprintf(upgrading+`access_log %s tunnels; error_log %s; limit_conn c 1;
		location / { proxy_pass http://%s; } location /unix { proxy_pass http://unix:%s; }
		location /silent { proxy_pass http://%s; proxy_read_timeout 1s; }
		location /stalled { proxy_pass http://%s; send_timeout 100ms; proxy_send_timeout 100ms; }`, logFile, errorLog, to,
		unix, to, to), nil)
	var address string
	switch server {
	case "net/http":
		address = serve(t, h.ServeHTTP)
	case "TLS":
		address = serveTLS(t, new(tls.Config), h.ServeHTTP).Listener.Addr().String()
	case "wrapped":
		address = serveOnTare(t, http.HandlerFunc(h.ServeHTTP))
	default:
		address = serveOnTare(t, h)
	}
	lines := 0
	for kind, end := range ends {
		path := "/"
		switch {
		case kind == "silence":
			path = "/silent"
		case strings.HasSuffix(kind, "stalls"):
			path = "/stalled"
		case server == "unix":
			path = "/unix"
		}
		nc := dial(t, "tcp", address, "")
		if server == "TLS" {
			nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
		}
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\nX-End: %s\r\n\r\n", path, kind)
		in := bufio.NewReader(nc)
		resp := testkit.Value(http.ReadResponse(in, nil))(t)
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %s", kind, resp.Status)
		}
		testkit.Equal(t, end.client(nc, in), nil, kind, "client")
		nc.Close()
		testkit.Equal(t, <-results, nil, kind, "upstream")
		lines++
		line := strings.TrimSpace(awaitLines(t, logFile, lines)[lines-1])
		if all := len(switching) + end.sent; end.sent >= 0 {
			testkit.Equal(t, line, fmt.Sprint("101 x ", end.sent, all, all), kind)
		}
	}
	if server != "unix" {
		text := string(testkit.Value(os.ReadFile(errorLog))(t))
		testkit.Contains(t, text, "while proxying upgraded connection", "the log of the upstream's reset")
	}
}

// A bound handler that calls its own front returns after the tunnel, so that it can count requests.
func TestHandlerThatCallsItsFrontWaitsForTunnel(t *testing.T) {
	var h *front.Handler
	returned := make(chan struct{})
	h = confFront(t, "", upgrading+passTo(serveTunnels(t))+" location /app { proxy_pass http://app; }",
		handlers{"app": func(w http.ResponseWriter, r *http.Request) {
			q := r.Clone(r.Context())
			q.URL.Path, q.RequestURI = "/", "/"
			h.ServeHTTP(w, q)
			close(returned)
		}})
	nc := dial(t, "tcp", serveOnTare(t, h), "GET /app HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	in := bufio.NewReader(nc)
	testkit.Value(http.ReadResponse(in, nil))(t)
	for range 100 {
		_, _ = io.WriteString(nc, "x")
		testkit.Value(in.ReadByte())(t)
	}
	select {
	case <-returned:
		t.Error("the handler has returned, and the tunnel is open")
	default:
	}
	nc.Close()
	<-returned
}

// A program's function that panics at the end of a tunnel does not end the process, and the front
// can be closed.
func TestPanicAtEndOfTunnelIsLogged(t *testing.T) {
	logged, program := io.Pipe()
	h := confFront(t, "", "otel_trace on; "+upgrading+passTo(serveText(t, switching)), nil,
		front.ExportSpans(func(front.Span) { panic("exporter") }),
		front.LogErrors(log.New(program, "", 0)))
	dial(t, "tcp", serveOnTare(t, h), "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	lines := bufio.NewReader(logged)
	line, _ := lines.ReadString('\n')
	testkit.Contains(t, line, "panic at the end of a request: exporter")
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	testkit.Must(t, h.Close())
}
