package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
	"github.com/tarehq/tare/internal/testkit/tlstest"
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
						c := s.raw()
						c.send("")
						c.await("SETTINGS ack") // unread input would make the system reset the connection
						path, _, resets := strings.Cut(how, " and ")
						if c.send("POST 1 " + path + ", DATA 1 x*100 end"); path == "/wait" {
							testkit.Receive(t, entered, how)
						}
						if resets {
							c.send("RST_STREAM 1")
						} else {
							c.Conn.Close()
						}
						testkit.Equal(t, testkit.Receive(t, read, how), "100 bytes, <nil>", how, "the handler has read")
					}
				}
			})
		}
	}
}

// As with net/http, a body that its handler has closed, or of which a Read has timed out, holds up no
// other body of the connection.
func TestHTTP2EndedBodyHoldsUpNoOther(t *testing.T) {
	for _, maker := range []string{"net/http", "tare", "on loop"} {
		for _, path := range []string{"/closed", "/timed-out"} {
			t.Run(maker+path, func(t *testing.T) {
				ended, release := make(chan bool), make(chan bool)
				defer close(release)
				r := newHTTP2Site(t, maker, "h2c-shard", &http.Server{Handler: http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/closed" {
							r.Body.Close()
						} else {
							testkit.Check(t, http.NewResponseController(w).SetReadDeadline(time.Now()))
							testkit.FailsWith(r.Body.Read(make([]byte, 1)))(t, os.ErrDeadlineExceeded)
						}
						close(ended)
						<-release
					})}).raw()
				r.send("POST 1 " + path)
				<-ended
				r.send(eachStream("DATA 1 x*16384", 64)) // which fill the windows of the stream and of the connection
				for opened := 0; opened < 1<<20; {
					update, ok := testkit.Value(r.reader.ReadFrame())(t).(*http2.WindowUpdateFrame)
					if ok && update.StreamID == 0 {
						opened += int(update.Increment)
					}
				}
			})
		}
	}
}

// As with net/http, a request whose stream depends on itself (RFC 7540, 5.3.1) is reset, and its
// fields are in the table of the client's later heads.
func TestHTTP2StreamThatDependsOnItselfIsReset(t *testing.T) {
	for _, maker := range []string{"net/http", "tare"} {
		for _, parts := range []int{1, 2} { // in which its head arrives
			r := newHTTP2Site(t, maker, "h2c-shard", &http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })}).raw()
			block := r.frames.Encode(h2test.Head("GET", "/indexed")...)
			first := len(block) / parts
			r.frames.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:first],
				EndHeaders: parts == 1, EndStream: true, Priority: http2.PriorityParam{StreamDep: 1}})
			if parts == 2 {
				r.frames.Framer.WriteContinuation(1, true, block[first:])
			}
			r.send("GET 3 /indexed")
			testkit.Equal(t, r.await("RST_STREAM"), "RST_STREAM PROTOCOL_ERROR", maker, "resets the stream")
			testkit.Equal(t, r.await("DATA"), "DATA /indexed end", maker, "responds")
		}
	}
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
			s := newHTTP2Site(t, "tare", mode, set)
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
	frames, hello, dial := newFrames(s.T), tlstest.ClientHello(s.T), s.site.dial
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
				c := testkit.Value(dial())(s)
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

type rawHTTP2 struct {
	*testing.T
	net.Conn
	frames *h2test.Frames
	reader *http2.Framer
}

// raw connects a client whose first output is the preface and SETTINGS.
func (s *http2Site) raw() *rawHTTP2 {
	s.Helper()
	c := testkit.Value(s.dial())(s)
	s.Cleanup(func() { c.Close() })
	return newRawHTTP2(s.T, c)
}

func newRawHTTP2(t *testing.T, c net.Conn) *rawHTTP2 {
	r := &rawHTTP2{T: t, Conn: c, frames: newFrames(t), reader: http2.NewFramer(nil, c)}
	r.reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return r
}

// newFrames returns the preface and SETTINGS.
func newFrames(t *testing.T) *h2test.Frames {
	f := h2test.NewFrames(t)
	f.WriteString(http2.ClientPreface)
	f.Framer.WriteSettings()
	return f
}

func (s *http2Site) dial() (net.Conn, error) {
	c, err := s.site.dial()
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	if isTLS(s.mode) {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"},
			ClientSessionCache: s.tickets, ServerName: "a.test"})
	}
	return c, nil
}

// send sends frames that h2test.Frames reads from a text, behind those that were added before.
func (r *rawHTTP2) send(text string) {
	r.Helper()
	r.frames.Add(text)
	testkit.Send(r, r.Conn, r.frames.Bytes())
	r.frames.Reset()
}

// await reads frames until one has a description, or one that begins so, and returns it.
func (r *rawHTTP2) await(want string) (got string) {
	r.Helper()
	for !strings.HasPrefix(got, want) || got == "" {
		got = h2test.DescribeFrame(testkit.Value(r.reader.ReadFrame())(r))
	}
	return got
}

// A client that stops reading loses its connection, wherever the handlers run, and also while
// another handler waits.
func TestHTTP2StalledClientLosesConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const timeout = 300 * time.Millisecond
	for limit, set := range map[string]func(*engine.Server, *http.Server){
		"WriteByteTimeout": func(_ *engine.Server, set *http.Server) {
			set.HTTP2 = &http.HTTP2Config{WriteByteTimeout: timeout}
		},
		"SendTimeout":  func(s *engine.Server, _ *http.Server) { s.SendTimeout = timeout },
		"WriteTimeout": func(_ *engine.Server, set *http.Server) { set.WriteTimeout = 2 * time.Second }, // also of the handshake
	} {
		for mode := range http2Modes {
			for _, dispatch := range []engine.Dispatch{engine.OnLoop, engine.OwnGoroutine} {
				if dispatch == engine.OnLoop && strings.HasSuffix(mode, "-goroutine") {
					continue // there is no loop
				}
				t.Run(limit+" "+mode, func(t *testing.T) {
					t.Parallel()
					ended := make(chan struct{}, 2)
					settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/wait" {
							<-r.Context().Done()
						} else {
							writeForever(w)
						}
						ended <- struct{}{}
					})}
					s := startHTTP2Site(t, mode, settings, func(*http.Server) server {
						s := engine.New(settings)
						s.Dispatch = dispatch
						set(s, settings)
						return s
					})
					s.raw().send("SETTINGS 2147483647, WINDOW_UPDATE 0 1073741824, GET 1 /wait, GET 3 /write")
					<-ended
					if limit != "SendTimeout" { // which ends the stream; the socket may accept the rest
						<-ended
					}
				})
			}
		}
	}
}

// everyHTTP2Mode runs a test over every kind of connection. On shards, all handlers run on the loop
// first: what blocks there must be moved off it.
func everyHTTP2Mode(t *testing.T, handler http.HandlerFunc, test func(*http2Site)) {
	for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
		t.Run(mode, func(t *testing.T) {
			leaveNothing(t)
			test(newHTTP2Site(t, "on loop", mode, &http.Server{Handler: handler}))
		})
	}
}

// As with net/http, the files of a form do not outlast a handler that panics.
func TestHTTP2PanicRemovesFilesOfForm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	files := func() int { return len(testkit.Value(os.ReadDir(os.TempDir()))(t)) }
	for _, maker := range []string{"net/http", "tare"} {
		parsed := 0
		s := newHTTP2Site(t, maker, "h2c-shard", &http.Server{Handler: http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				testkit.Check(t, r.ParseMultipartForm(0))
				parsed = files()
				panic(http.ErrAbortHandler)
			})})
		form := "--x\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\ncontent\r\n--x--\r\n"
		testkit.Fails(s.client.Post(s.url, "multipart/form-data; boundary=x", strings.NewReader(form)))(t, "INTERNAL_ERROR")
		testkit.Equal(t, parsed, 1, maker, "has made files")
		testkit.Equal(t, files(), 0, maker, "has left files")
	}
}

// A goroutine that reads the body of a request whose handler has returned never receives that of
// another.
func TestHTTP2BodyIsReadAfterReturn(t *testing.T) {
	var readers sync.WaitGroup
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
		own := r.URL.Path[1:]
		started := make(chan struct{})
		readers.Go(func() {
			close(started)
			for p := make([]byte, 100); ; {
				n, err := r.Body.Read(p)
				testkit.Equal(t, strings.Trim(string(p[:n]), own), "", "the body of", own, "contains")
				if err != nil {
					return
				}
			}
		})
		<-started
		io.WriteString(w, r.URL.Path)
	}, func(s *http2Site) {
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				letter := string(rune('a' + i))
				for range 12 {
					body := strings.NewReader(strings.Repeat(letter, 20000))
					response := testkit.Value(s.client.Post(s.url+"/"+letter, "a/b", body))(t)
					testkit.Reads(t, response.Body, "/"+letter)
					response.Body.Close()
				}
			})
		}
		clients.Wait()
		readers.Wait()
	})
}
