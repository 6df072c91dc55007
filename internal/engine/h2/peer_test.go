package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// peer is a client of a session, in the goroutine that has its turn. It writes frames into a buffer
// that pump passes to the session, and reads the session's output.
type peer struct {
	testing.TB
	session *Session
	input   bytes.Buffer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder

	mu      sync.Mutex // guards output: timers of the session send, too
	output  bytes.Buffer
	accepts int // bytes of output that the carrier accepts; -1 for all
	sends   int // calls of the carrier
	ended   bool
	logged  []string
	started atomic.Int32 // handlers
	data    int          // bytes of DATA that were read
	reader  *http2.Framer
}

// preface is what a client sends first.
const preface = http2.ClientPreface

func newPeer(t testing.TB, set *http.HTTP2Config, handler http.HandlerFunc, apply ...func(*Config)) *peer {
	p := &peer{TB: t, accepts: -1}
	state := &exchange.ServerState{Logf: func(format string, args ...any) { p.logged = append(p.logged, format) },
		ConnClosed: make(chan struct{}, 1), KeepAlivesDisabled: new(atomic.Bool)}
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
	p.session = New(settings, carrier{p: p}, carrier{p: p}, nil)
	p.framer = http2.NewFramer(&p.input, nil)
	p.framer.AllowIllegalWrites = true
	p.encoder = hpack.NewEncoder(&p.block)
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

// awaitWaiting waits until n responses wait for windows or room.
func (p *peer) awaitWaiting(n int) {
	waiting := func() int {
		p.session.mu.Lock()
		defer p.session.mu.Unlock()
		return len(p.session.output.waiting)
	}
	for waiting() < n {
		runtime.Gosched()
	}
}

// pending returns how many bytes of output wait.
func (p *peer) pending() int {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.session.output.pendingLocked()
}

// buffered returns how much memory the session's buffers for input hold.
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

// head returns the fields of a request.
func head(method, path string) []string {
	return []string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}
}

// get opens a stream with a GET, or with a method and fields.
func (p *peer) get(id uint32, fields ...string) {
	p.request(id, true, append(head("GET", "/"), fields...)...)
}

// post opens a stream with a request whose body follows.
func (p *peer) post(id uint32, fields ...string) {
	p.request(id, false, append(head("POST", "/"), fields...)...)
}

func (p *peer) request(id uint32, ends bool, fields ...string) {
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndStream: ends,
		EndHeaders: true})
}

// send writes frames that a text describes by their kind, their stream and their content: "POST 1 a=b,
// DATA 1 body end, RST_STREAM 1". "x*600" is a content of 600 bytes, and "/a" the path of a request.
// SETTINGS have an initial window in place of a stream.
func (p *peer) send(frames string) {
	p.Helper()
	last, size := "", 0
	for frame := range strings.SplitSeq(frames, ", ") {
		at := p.input.Len()
		if frame == last { // quickly, for floods; no head is repeated
			p.input.Write(p.input.Bytes()[at-size:])
			continue
		}
		text, ends := strings.CutSuffix(frame, " end")
		words := append(strings.Fields(text), "", "", "")
		number, _ := strconv.ParseUint(words[1], 10, 32)
		id, content := uint32(number), words[2]
		count, _ := strconv.ParseUint(content, 10, 32)
		if letter, times, ok := strings.Cut(content, "*"); ok {
			content = strings.Repeat(letter, testkit.Value(strconv.Atoi(times))(p))
		}
		switch kind := words[0]; kind {
		case "GET", "POST":
			fields := head(kind, "/")
			for _, word := range words[2:] {
				if name, value, ok := strings.Cut(word, "="); ok {
					fields = append(fields, name, value)
				} else if word != "" {
					fields[7] = word
				}
			}
			p.request(id, kind == "GET", fields...)
		case "HEADERS": // which CONTINUATION follows
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true,
				BlockFragment: p.encode(head("GET", "/")...)})
		case "CONTINUATION":
			p.framer.WriteContinuation(id, ends, []byte(content))
		case "TRAILERS":
			p.request(id, true, "sum", "1")
		case "TRAILERS-IN-TWO":
			block := p.encode("sum", "1")
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:2], EndStream: true})
			p.framer.WriteContinuation(id, true, block[2:])
		case "DATA":
			p.framer.WriteData(id, ends, []byte(content))
		case "PADDED-DATA":
			p.framer.WriteDataPadded(id, ends, []byte(content), make([]byte, 255))
		case "RST_STREAM":
			p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		case "WINDOW_UPDATE":
			p.framer.WriteWindowUpdate(id, uint32(count))
		case "SETTINGS":
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: id})
		case "PING":
			p.framer.WritePing(false, [8]byte{})
		case "ACK": // of the PING behind a response, or of another one
			data := [8]byte{'r', 'e', 's', 'p', 7: byte(id)}
			if id == 0 {
				copy(data[:], strings.TrimPrefix(text, "ACK "))
			}
			p.framer.WritePing(true, data)
		case "GOAWAY":
			p.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		case "PRIORITY":
			p.framer.WritePriority(id, http2.PriorityParam{StreamDep: uint32(count)})
		case "PRIORITY_UPDATE":
			p.framer.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"+content))
		case "EXTENSION":
			p.framer.WriteRawFrame(0xfa, 0, 0, []byte(content))
		case "":
		default:
			p.Fatalf("unknown frame %q", frame)
		}
		last, size = frame, p.input.Len()-at
	}
}

func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
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
	text := f.Header().Type.String()
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			text += " ack"
		}
	case *http2.MetaHeadersFrame:
		text += " " + f.PseudoValue("status")
		if f.StreamEnded() {
			text += " end"
		}
	case *http2.DataFrame:
		p.data += len(f.Data())
		text += " " + string(f.Data()[:min(len(f.Data()), 20)])
		if f.StreamEnded() {
			text += " end"
		}
	case *http2.RSTStreamFrame:
		text += " " + f.ErrCode.String()
	case *http2.GoAwayFrame:
		text += " " + f.ErrCode.String()
	case *http2.PingFrame:
		if f.IsAck() {
			text += " ack"
		}
	}
	return text
}

// rest reads all frames.
func (p *peer) rest() string {
	var all []string
	for f := p.next(); f != ""; f = p.next() {
		all = append(all, f)
	}
	return strings.Join(all, ", ")
}

// wantRest fails unless the server has sent these frames.
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

// discard drops what the server has sent.
func (p *peer) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Reset()
}

// carrier is the Carrier of a peer, and its Connection.
type carrier struct {
	connection.Info
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
func (c carrier) RemoteAddr() net.Addr     { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c carrier) LocalAddr() net.Addr      { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

func hello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}
