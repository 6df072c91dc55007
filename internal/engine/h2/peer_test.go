package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
	"github.com/tarehq/tare/internal/wire/http1"
)

// peer is a client of a session, in the goroutine that has its turn. It writes frames into a buffer
// that pump passes to the session, and reads the session's output.
type peer struct {
	testing.TB
	session *Session
	input   *h2test.Frames
	framer  *http2.Framer // of the input

	mu      sync.Mutex // guards output: timers of the session send, too
	output  bytes.Buffer
	accepts int // bytes of output that the carrier accepts; -1 for all
	sends   int // calls of the carrier
	ended   bool
	started atomic.Int32 // handlers
	data    int          // bytes of DATA that were read
	reader  *http2.Framer
}

const preface = http2.ClientPreface

func newPeer(t testing.TB, set *http.HTTP2Config, handler http.HandlerFunc, apply ...func(*Config)) *peer {
	p := &peer{TB: t, accepts: -1}
	state := &exchange.ServerState{Logf: func(string, ...any) {}, ConnClosed: make(chan struct{}, 1),
		KeepAlivesDisabled: new(atomic.Bool)}
	config := &exchange.Config{
		Server: state, BaseContext: context.Background(), HeadTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		Limits: http1.Limits{Bytes: 1 << 20, Fields: 1000},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.started.Add(1)
			handler(w, r)
		}),
	}
	settings := NewConfig(config, set, 0)
	for _, f := range apply {
		f(settings)
	}
	p.session = New(settings, carrier{p: p}, carrier{p: p}, "127.0.0.1:1", nil)
	p.input = h2test.NewFrames(t)
	p.framer = p.input.Framer
	p.reader = http2.NewFramer(nil, &p.output)
	p.reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return p
}

// openPeer returns a peer that has sent the preface and SETTINGS.
func openPeer(t testing.TB, set *http.HTTP2Config, handler http.HandlerFunc, apply ...func(*Config)) *peer {
	t.Helper()
	p := newPeer(t, set, handler, apply...)
	p.open()
	return p
}

// open sends the preface and SETTINGS, and reads the server's.
func (p *peer) open(settings ...http2.Setting) {
	p.Helper()
	p.input.WriteString(preface)
	p.framer.WriteSettings(settings...)
	p.framer.WriteSettingsAck()
	p.pump()
	for _, want := range []string{"SETTINGS", "WINDOW_UPDATE", "SETTINGS ack"} {
		testkit.Equal(p, p.next(), want)
	}
}

// pump passes the frames to the session and runs the handlers.
func (p *peer) pump() (alive bool) {
	alive = p.session.Receive(p.input.Bytes())
	p.input.Reset()
	for st := p.session.Next(); st != nil; st = p.session.Next() {
		token := p.session.Turn.Enter()
		st.Run(nil, token)
		testkit.Equal(p, p.session.Turn.Leave(token), true, "the turn is kept")
	}
	p.session.Flush()
	return alive
}

// receive passes the frames to the session and sends the output, without running handlers.
func (p *peer) receive() (alive bool) {
	alive = p.session.Receive(p.input.Bytes())
	p.input.Reset()
	p.session.Flush()
	return alive
}

// runReady runs the handlers of the streams that are ready in goroutines. wait returns when their
// responses were settled.
func (p *peer) runReady() (wait func()) {
	var running sync.WaitGroup
	for st := p.session.Next(); st != nil; st = p.session.Next() {
		running.Go(func() {
			st.Run(nil, 0)
			st.Settle()
		})
	}
	return running.Wait
}

func (p *peer) pending() int {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.session.output.pendingLocked()
}

func (p *peer) buffered() int { return cap(p.session.input.partial) + cap(p.session.input.block) }

// holdsStream reports whether the session refers to a stream.
func (p *peer) holdsStream() bool {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	isStream := func(st *Stream) bool { return st != nil }
	return len(s.streams) > 0 || s.input.data.stream != nil || slices.ContainsFunc(s.ready[:cap(s.ready)], isStream) ||
		slices.ContainsFunc(s.output.waiting[:cap(s.output.waiting)], isStream)
}

func (p *peer) get(id uint32, fields ...string) {
	p.request(id, true, append(h2test.Head("GET", "/"), fields...)...)
}

func (p *peer) request(id uint32, ends bool, fields ...string) { p.input.AddHead(id, ends, fields...) }

// send writes frames that h2test.Frames reads from a text.
func (p *peer) send(frames string) {
	p.Helper()
	p.input.Add(frames)
}

// next reads a frame of the server and describes it; "" if there is none.
func (p *peer) next() string {
	p.Helper()
	p.mu.Lock()
	f, err := p.reader.ReadFrame()
	p.mu.Unlock()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	if err != nil {
		p.Fatalf("the server's frame is invalid: %v", err)
	}
	if data, ok := f.(*http2.DataFrame); ok {
		p.data += len(data.Data())
	}
	return h2test.DescribeFrame(f)
}

func (p *peer) rest() string {
	var all []string
	for f := p.next(); f != ""; f = p.next() {
		all = append(all, f)
	}
	return strings.Join(all, ", ")
}

func (p *peer) wantRest(want string) {
	p.Helper()
	testkit.Equal(p, p.rest(), want, "the server's frames")
}

// exchange sends frames, runs the handlers, and fails unless the server sends the wanted frames.
func (p *peer) exchange(frames, want string) {
	p.Helper()
	p.send(frames)
	p.pump()
	p.wantRest(want)
}

// wantLast fails the test unless the server's frames end with these.
func (p *peer) wantLast(want string) {
	p.Helper()
	got := p.rest()
	testkit.Contains(p, got[max(0, len(got)-len(want)):], want, "the server ends with")
}

func (p *peer) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Reset()
}

// carrier is the Carrier of a peer, and the connection beneath it.
type carrier struct {
	exchange.Transport
	p *peer
}

func (c carrier) Send(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.sends++
	n := len(b)
	if c.p.accepts >= 0 {
		n = min(n, c.p.accepts)
		c.p.accepts -= n
	}
	return c.p.output.Write(b[:n])
}

func (c carrier) AwaitRoom()               {}
func (c carrier) Update()                  {}
func (c carrier) End(bool)                 { c.p.ended = true }
func (c carrier) Context() context.Context { return context.Background() }
func (c carrier) Logf(string, ...any)      {}
func (c carrier) LocalAddr() net.Addr      { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

func hello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}
