package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http2"
)

// piecesConn is a connection whose peer has sent pieces and closed it. It accepts all bytes.
type piecesConn struct {
	net.Conn
	mu     sync.Mutex
	pieces [][]byte
}

func (c *piecesConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (*piecesConn) Write(p []byte) (int, error)      { return len(p), nil }
func (*piecesConn) Close() error                     { return nil }
func (*piecesConn) SetWriteDeadline(time.Time) error { return nil }

// host is the h2.Host of a connection.
type host struct {
	closing chan struct{}
	once    *sync.Once
	ended   *sync.WaitGroup // streams
}

func (h host) Closing()      { h.once.Do(func() { close(h.closing) }) }
func (host) HasRoom()        {}
func (h host) StreamClosed() { h.ended.Done() }

const streamWindow = 1 << 12

func testConfig() *h2.Config {
	return &h2.Config{MaxHeadBytes: 1 << 12, MaxFields: 100, ConnWindow: 1 << 16, StreamWindow: streamWindow,
		MaxFrameSize: http2.MinMaxFrameSize, TableSize: http2.DefaultTableSize, PingTimeout: time.Second,
		WriteTimeout: time.Second}
}

func requestHead() []byte {
	return http2.AppendRequest(http2.AppendHeaders(nil, 0),
		&http2.RequestFields{Method: "GET", Scheme: "http", Authority: "a", Path: "/"})
}

// receive returns what two requests receive from a server that sends pieces whatever they are.
func receive(pieces [][]byte) (result string) {
	input := &piecesConn{pieces: append(slices.Clone(pieces), nil)}
	input.mu.Lock() // nothing arrives before the requests are sent
	h := host{make(chan struct{}), new(sync.Once), new(sync.WaitGroup)}
	c := h2.New(input, testConfig(), h, 10)
	streams := make([]h2.Stream, 2)
	h.ended.Add(len(streams))
	for i := range streams {
		if i > 0 && !c.Reserve(false) {
			panic("no stream")
		}
		if _, err := c.Open(&streams[i], &h2.Request{Head: requestHead(), IsLast: true}); err != nil {
			panic(err)
		}
	}
	input.mu.Unlock()
	<-h.closing
	h.ended.Wait()
	for i := range streams {
		result += describe(&streams[i]) + "; "
	}
	return result
}

func describe(st *h2.Stream) (result string) {
	for {
		head, err := st.AwaitHead()
		if err != nil {
			return result + kindOf(err)
		}
		result += fmt.Sprint(head.Status, head.Header, head.Trailer, head.Length, " ")
		if head.Status >= 200 {
			break
		}
	}
	b, err := io.ReadAll(st)
	return result + fmt.Sprintf("%q %s %v", b, kindOf(err), st.Trailer())
}

func kindOf(err error) string {
	var e *h2.Error
	switch {
	case err == nil:
		return "complete"
	case !errors.As(err, &e):
		return "unexpected: " + err.Error()
	}
	return fmt.Sprint(e.Kind, e.IsUnprocessed, " ", e)
}

// serverInput is what a server sends, and what two requests receive.
type serverInput struct {
	in   []byte
	want string
}

func serverInputs() (all []serverInput) {
	settings := http2.AppendSettings(nil, http2.Setting{ID: http2.MaxConcurrentStreams, Value: 5})
	head := func(id uint32, flags http2.Flags, status int) []byte {
		b := http2.AppendLength(http2.AppendStatus(http2.AppendHeaders(nil, id), status), 5)
		http2.AddFrameFlags(b, flags)
		return http2.EndBlock(b, 0, http2.MinMaxFrameSize)
	}
	frame := func(kind http2.FrameType, flags http2.Flags, id uint32, payload string) []byte {
		h := http2.FrameHeader{Length: uint32(len(payload)), Type: kind, Flags: flags, StreamID: id}
		return append(http2.AppendFrameHeader(nil, h), payload...)
	}
	add := func(want string, parts ...[]byte) { all = append(all, serverInput{bytes.Join(parts, nil), want}) }
	add(`200 map[Content-Length:[5]] map[] 5 "hello" complete map[]; `+
		`304 map[Content-Length:[5]] map[] 5 "" complete map[]; `,
		settings, head(1, 0, 200), frame(http2.Data, http2.EndStream, 1, "hello"), head(3, http2.EndStream, 304))
	add(`3 true stream error: stream ID 1; REFUSED_STREAM; received from peer; 103 map[Content-Length:[5]] map[] 5 200 `+
		`map[Content-Length:[5]] map[] 5 "hello" 2 false http2: PROTOCOL_ERROR: malformed trailer section map[]; `,
		settings, head(3, 0, 103), head(3, 0, 200), frame(http2.Data, http2.Padded, 3, "\x03hellopad"),
		head(3, http2.EndStream, 200), http2.AppendRSTStream(nil, 1, http2.RefusedStream))
	add(`200 map[Content-Length:[5]] map[] 5 "hel" 1 false http2: the server closes the connection (GOAWAY) map[]; `+
		`1 true http2: the server closes the connection (GOAWAY); `,
		settings, http2.AppendPing(nil, 0, [8]byte{1}), http2.AppendWindowUpdate(nil, 1, 1), head(1, 0, 200),
		http2.AppendGoAway(nil, 1, http2.NoError), frame(http2.Data, 0, 1, "hel"))
	add(`200 map[Content-Length:[1]] map[] 1 "h" complete map[]; 1 false EOF; `,
		settings, frame(http2.Headers, 0, 1, "\x88"), frame(http2.Continuation, http2.EndHeaders, 1, "\x5c\x011"),
		frame(http2.Data, http2.EndStream, 1, "h"), frame(http2.Data, 0, 1, "late"), frame(0x77, 0, 9, "unknown"))
	add(`200 map[] map[] -1 "" complete map[A:[b]]; 1 false EOF; `, // Content-Length is not in a trailer section
		settings, frame(http2.Headers, http2.EndHeaders, 1, "\x88"),
		frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, "\x00\x01a\x01b\x0f\x0d\x011"))
	add(strings.Repeat(`2 false http2: PROTOCOL_ERROR: first frame is not SETTINGS; `, 2),
		[]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	add(`200 map[A:[b b]] map[] -1 "" complete map[]; 200 map[A:[b]] map[] -1 "" complete map[]; `, // HPACK's table
		settings, frame(http2.Headers, http2.EndHeaders|http2.EndStream, 1, "\x88\x40\x01a\x01b\xbe"),
		frame(http2.Headers, http2.EndHeaders|http2.EndStream, 3, "\x88\xbe"))
	padded := bytes.Repeat(frame(http2.Data, http2.Padded, 1, "\xffx"+strings.Repeat("\x00", 255)), 2*streamWindow/256)
	add(fmt.Sprintf(`200 map[] map[] -1 %q complete map[]; 1 false EOF; `, strings.Repeat("x", 2*streamWindow/256)),
		settings, frame(http2.Headers, http2.EndHeaders, 1, "\x88"), padded, frame(http2.Data, http2.EndStream, 1, ""))
	const piece = 1 << 10
	content := bytes.Repeat(frame(http2.Data, 0, 1, strings.Repeat("x", piece)), streamWindow/piece)
	add(fmt.Sprintf(`200 map[] map[] -1 %q 2 false http2: FLOW_CONTROL_ERROR: stream window exceeded map[]; 1 false EOF; `,
		strings.Repeat("x", streamWindow)),
		settings, frame(http2.Headers, http2.EndHeaders, 1, "\x88"), content, frame(http2.Data, 0, 1, "x"))
	return all
}

// FuzzReader checks that whatever a server sends ends the requests, and that it does not matter in
// which pieces it arrives.
func FuzzReader(f *testing.F) {
	for _, s := range serverInputs() {
		f.Add(s.in, 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		whole := receive([][]byte{in})
		if len(in) == 0 {
			return
		}
		if cut = int(uint(cut) % uint(len(in))); cut == 0 {
			return
		}
		testkit.Equal(t, receive([][]byte{in[:cut], in[cut:]}), whole, "cut at", cut)
	})
}

// Input in any pieces has the same results.
func TestInputInAnyPieces(t *testing.T) {
	for _, s := range serverInputs() {
		testkit.Equal(t, testkit.EverySplit(t, s.in, receive), s.want, fmt.Sprintf("%q", s.in))
	}
}
