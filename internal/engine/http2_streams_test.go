package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// A client may leave as soon as it has sent a request, because it needs no response. The handler is
// called and can read the body, with tare as with net/http. It also can if the client resets the
// stream while the handler runs.
func TestHTTP2LastRequestIsServed(t *testing.T) {
	for _, maker := range []string{"net/http", "tare", "on loop"} {
		for mode := range http2Modes {
			t.Run(maker+" "+mode, func(t *testing.T) {
				t.Parallel()
				entered, read := make(chan bool, 1), make(chan string, 1)
				s := newHTTP2Site(t, maker, mode, &http.Server{
					Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/wait" {
							entered <- true
							<-r.Context().Done()
						}
						body, err := io.ReadAll(r.Body)
						read <- fmt.Sprint(len(body), " bytes, ", err)
					})})
				for range 3 {
					for _, how := range []string{"/", "/wait", "/wait and reset"} {
						s.leave(how, entered)
						testkit.Equal(t, <-read, "100 bytes, <nil>", how, "the handler has read")
					}
				}
			})
		}
	}
}

// leave sends a request to a path, and leaves at once or when its handler was called.
func (s *http2Site) leave(how string, entered <-chan bool) {
	s.Helper()
	c := s.raw()
	c.send("")
	c.await("SETTINGS ack") // unread input would make the system reset the connection
	path, _, resets := strings.Cut(how, " and ")
	c.send("POST 1 " + path + ", DATA 1 x*100 end")
	if path == "/wait" {
		<-entered
	}
	if resets {
		c.send("RST_STREAM 1")
		return
	}
	c.Conn.Close()
}

// A connection is idle when its last handler returns, also if nothing arrives then.
func TestHTTP2ConnectionIsIdleAfterItsHandlers(t *testing.T) {
	for mode := range http2Modes {
		t.Run(mode, func(t *testing.T) {
			entered, release := make(chan bool), make(chan bool)
			set := &http.Server{IdleTimeout: 50 * time.Millisecond,
				Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/slow" {
						entered <- true
						<-release
					}
				})}
			s := extendedHTTP2Site(t, mode, set, func(s *engine.Server) { s.Dispatch = engine.OwnGoroutine })
			done := make(chan bool)
			go func() {
				defer close(done)
				s.get("/slow")
			}()
			<-entered
			s.get("/") // the connection waits by the time of this response
			release <- true
			<-done
			awaitOpen(t, s.server, 0)
		})
	}
}

// The connection of a session that has ended is closed soon, whatever the timeouts, also if the client
// does not close it.
func TestHTTP2EndedConnectionIsClosed(t *testing.T) {
	for mode := range http2Modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newHTTP2Site(t, "tare", mode, &http.Server{ReadHeaderTimeout: time.Hour})
			r := s.raw()
			r.send("DATA 1 end") // on an idle stream
			r.await("GOAWAY")
			awaitOpen(t, s.server, 0)
		})
	}
}

// A connection whose cipher suite RFC 9113 prohibits for HTTP/2 is rejected, unless the settings
// permit it, on the goroutine path and on shards.
func TestHTTP2IsRejectedOverProhibitedCiphers(t *testing.T) {
	for _, mode := range []string{"h2-tls-goroutine", "h2-tls-shard"} {
		for _, permits := range []bool{false, true} {
			set := &http.Server{HTTP2: &http.HTTP2Config{PermitProhibitedCipherSuites: permits}}
			s := newHTTP2Site(t, "tare", mode, set)
			plain := testkit.Value(s.site.dial())(t)
			tc := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
				NextProtos: []string{"h2"}, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}})
			defer tc.Close()
			r := newRawHTTP2(t, tc)
			r.await("SETTINGS")
			got := r.await("")
			testkit.Equal(t, got != "GOAWAY INADEQUATE_SECURITY", permits, mode, "goes on with", got)
		}
	}
}

// stall is a client that occupies the server without an end: it stops after its handshake, or it
// does not finish that.
type stall struct {
	begun int                              // handlers that begin
	send  string                           // frames
	cut   int                              // bytes of their end that it does not send
	hello func(hello []byte, i int) []byte // the part of the first message that the client sends
}

func http2Stalls() map[string]stall {
	const streams = 4
	reads := eachStream("GET ID /write", streams)
	return map[string]stall{
		"zero window":         {begun: streams, send: "SETTINGS 0, " + reads},
		"reads nothing":       {begun: streams, send: "SETTINGS 2147483647, WINDOW_UPDATE 0 1073741824, " + reads},
		"slow bodies":         {begun: streams, send: eachStream("POST ID /upload", streams) + ", DATA 1 x*100", cut: 50},
		"part of the preface": {cut: 23},
		"slow head":           {send: "HEADERS 1, CONTINUATION 1 x*10000, CONTINUATION 1 x*10000", cut: 50},
		"no message":          {hello: func([]byte, int) []byte { return nil }},
		"first byte":          {hello: func(hello []byte, _ int) []byte { return hello[:1] }},
		"part of message":     {hello: func(hello []byte, i int) []byte { return hello[:1+i%(len(hello)-1)] }},
		"whole message":       {hello: func(hello []byte, _ int) []byte { return hello }},
		"long record":         {hello: func([]byte, int) []byte { return []byte{22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc} }},
	}
}

const (
	// stallMemory is how much memory a connection that stalls may take: that of its handlers, which
	// are goroutines with buffers of their own, and what they have written.
	stallMemory = 512 << 10
	// handshakeMemory is likewise for handshakes that have not begun. What those hold that have
	// begun is limited by their number.
	handshakeMemory = 4 << 10
)

// Clients that stall hold bounded memory and delay no other client, over each kind of connection.
// Nothing is left of them when they leave.
// Handshakes stall on shards. The memory is measured in the slow form.
func TestHTTP2StalledClientsHoldLittleMemory(t *testing.T) {
	for name, how := range http2Stalls() {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			if how.hello != nil && mode != "h2-tls-shard" {
				continue
			}
			t.Run(name+" "+mode, func(t *testing.T) {
				leaveNothing(t)
				s, n, memory := newTarget(t, "tare", mode), hostileConns(0), stallMemory
				if how.hello != nil {
					n, memory = n*len(http2Modes), handshakeMemory
				}
				s.stall(n, how)
				if testkit.Slow() {
					s.wantMemory(n, memory)
				}
			})
		}
	}
}

// stall opens n connections that stall. Then another client, whose connections are new, must
// receive responses.
func (s *targetSite) stall(n int, how stall) {
	s.Helper()
	s.client.CloseIdleConnections()
	frames, hello, dial := newFrames(s.T), testkit.ClientHello(s.T), s.site.dial
	if how.hello == nil {
		dial = s.dial
		frames.Add(how.send)
		frames.Truncate(frames.Len() - how.cut)
	}
	conns := make(chan net.Conn, n)
	var clients sync.WaitGroup
	const together = 8
	for first := range together {
		clients.Go(func() {
			for i := first; i < n; i += together {
				c, err := dial()
				if err != nil {
					s.Error(err)
					return
				}
				content := frames.Bytes()
				if how.hello != nil {
					content = how.hello(hello, i)
				}
				_, _ = c.Write(content) // the server may have ended it in favor of newer ones
				conns <- c
			}
		})
	}
	clients.Wait()
	close(conns)
	if how.hello == nil {
		testkit.WaitFor(s.T, "all clients to connect", func() bool { return s.state().open > int64(n) })
		testkit.WaitFor(s.T, "all handlers to begin", func() bool { return s.state().begun == int64(n*how.begun) })
	}
	for range 20 {
		s.client.CloseIdleConnections()
		testkit.Equal(s, s.get("/"), "hello", "another client has received")
	}
	for c := range conns {
		c.Close()
	}
	testkit.WaitFor(s.T, "all connections to close", func() bool { return s.state().open == 1 })
}
