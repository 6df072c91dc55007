package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

var limitsOfTests = http1.Limits{Bytes: 1 << 20, Fields: 1000}

// hostileRow is what a server sends instead of a response to the request with the stream 1.
type hostileRow struct {
	name  string
	send  []byte
	kind  Kind
	want  string // what the client sends then; "" for nothing
	after string // of the request: a body that does not end, or nothing
}

const maxWindow = wire.MaxWindow

func hostileStreams() []hostileRow {
	ok := headFrame(1, 0, ":status", "200")
	head := func(fields ...string) []byte {
		return headFrame(1, 0, append([]string{":status", "200"}, fields...)...)
	}
	reset := "RST_STREAM PROTOCOL_ERROR"
	rows := []hostileRow{
		{name: "window", send: slices.Concat(wire.AppendWindowUpdate(nil, 1, maxWindow),
			wire.AppendWindowUpdate(nil, 1, maxWindow)), want: "RST_STREAM FLOW_CONTROL_ERROR"},
		{name: "window by 0", send: wire.AppendWindowUpdate(nil, 1, 0), want: reset},
		{name: "data first", send: dataFrame(1, 0, "x"), want: reset},
		{name: "head depends on itself", send: rawFrame(wire.Headers, wire.EndHeaders|wire.HasPriority, 1,
			"\x00\x00\x00\x01\x00\x88"), want: reset},
		{name: "priority", send: append(rawFrame(wire.Priority, 0, 1, "1234"), ok...),
			want: "RST_STREAM FRAME_SIZE_ERROR"},
		{name: "end of interim", send: headFrame(1, wire.EndStream, ":status", "100"), want: reset},
		{name: "101", send: headFrame(1, 0, ":status", "101"), want: reset},
		{name: "many interim", send: bytes.Repeat(headFrame(1, 0, ":status", "103"), 200),
			want: "RST_STREAM ENHANCE_YOUR_CALM"},
		{name: "no status", send: headFrame(1, 0, "a", "b"), want: reset},
		{name: "two status", send: headFrame(1, 0, ":status", "200", ":status", "200"), want: reset},
		{name: "path", send: headFrame(1, 0, ":status", "200", ":path", "/"), want: reset},
		{name: "late status", send: headFrame(1, 0, "a", "b", ":status", "200"), want: reset},
		{name: "large head", send: head(slices.Repeat([]string{"a", strings.Repeat("b", 100)}, 120)...), want: reset},
		{name: "too long", send: append(head("content-length", "1"), dataFrame(1, 0, "xy")...), want: reset},
		{name: "too short", send: append(head("content-length", "3"), dataFrame(1, wire.EndStream, "xy")...),
			want: reset},
		{name: "nothing", send: headFrame(1, wire.EndStream, ":status", "200", "content-length", "3"), want: reset},
		{name: "content of 204", send: append(headFrame(1, 0, ":status", "204"), dataFrame(1, 0, "x")...), want: reset},
		{name: "trailer does not end", send: append(ok, headFrame(1, 0, "a", "b")...), want: reset},
		{name: "pseudo in trailer", send: append(ok, headFrame(1, wire.EndStream, ":status", "200")...), want: reset},
		{name: "cancel", send: wire.AppendRSTStream(nil, 1, wire.Cancel), kind: Rejected},
		{name: "cancel body", send: append(ok, wire.AppendRSTStream(nil, 1, wire.InternalError)...), kind: Rejected},
		{name: "early end", send: headFrame(1, wire.EndStream, ":status", "x"), want: reset, after: "body"},
	}
	for _, status := range []string{"", "99", "20", "2000", "abc", "+20"} {
		rows = append(rows, hostileRow{name: "status " + status, send: headFrame(1, 0, ":status", status), want: reset})
	}
	for _, field := range [][]string{
		{"content-length", "3", "content-length", "3"}, {"content-length", "3", "content-length", "4"},
		{"content-length", "+3"}, {"content-length", "-1"}, {"content-length", "3, 3"}, {"content-length", ""},
		{"transfer-encoding", "chunked"}, {"connection", "close"}, {"keep-alive", "x"}, {"upgrade", "x"},
		{"proxy-connection", "x"}, {"Upper", "x"}, {"a b", "x"}, {"", "x"}, {":x", "y"}, {"a", "x\ny"}, {"a", "\x00"},
	} {
		rows = append(rows, hostileRow{name: strings.Join(field, ":"), send: head(field...), want: reset})
	}
	return rows
}

func hostileConnections() []hostileRow {
	ok := headFrame(1, 0, ":status", "200")
	protocol, flow := "GOAWAY PROTOCOL_ERROR", "GOAWAY FLOW_CONTROL_ERROR"
	size, calm, compression := "GOAWAY FRAME_SIZE_ERROR", "GOAWAY ENHANCE_YOUR_CALM", "GOAWAY COMPRESSION_ERROR"
	flood := func(frame []byte) []byte { return bytes.Repeat(frame, 20_000) }
	setting := func(id wire.SettingID, v uint32) []byte {
		return wire.AppendSettings(nil, wire.Setting{ID: id, Value: v})
	}
	return []hostileRow{
		{name: "push", send: rawFrame(wire.PushPromise, wire.EndHeaders, 1, "\x00\x00\x00\x02\x88"), want: protocol},
		{name: "window", send: wire.AppendWindowUpdate(nil, 0, maxWindow), want: flow},
		{name: "initial window", send: append(wire.AppendWindowUpdate(nil, 1, 1<<20),
			setting(wire.InitialWindowSize, maxWindow)...), want: flow},
		{name: "large setting", send: setting(wire.InitialWindowSize, maxWindow+1), want: flow},
		{name: "frame size", send: setting(wire.MaxFrameSizeSetting, 1), want: protocol},
		{name: "settings", send: rawFrame(wire.Settings, 0, 0, "12345"), want: size},
		{name: "push enabled", send: setting(wire.EnablePush, 1), want: protocol},
		{name: "settings of stream", send: rawFrame(wire.Settings, 0, 1, ""), want: protocol},
		{name: "many settings", send: wire.AppendSettings(nil, make([]wire.Setting, 101)...), want: calm},
		{name: "idle data", send: dataFrame(3, 0, "x"), want: protocol},
		{name: "idle head", send: headFrame(3, 0, ":status", "200"), want: protocol},
		{name: "idle reset", send: wire.AppendRSTStream(nil, 3, 0), want: protocol},
		{name: "idle window", send: wire.AppendWindowUpdate(nil, 3, 1), want: protocol},
		{name: "even stream", send: headFrame(2, 0, ":status", "200"), want: protocol},
		{name: "data of connection", send: dataFrame(0, 0, "x"), want: protocol},
		{name: "large frame", send: rawFrame(wire.Ping, 0, 0, strings.Repeat("x", 1<<15)), want: size},
		{name: "continuation", send: rawFrame(wire.Continuation, wire.EndHeaders, 1, ""), want: protocol},
		{name: "interrupted head", send: wire.AppendPing(rawFrame(wire.Headers, 0, 1, "\x88"), 0, [8]byte{}),
			want: protocol},
		{name: "index", send: rawFrame(wire.Headers, wire.EndHeaders, 1, "\xff\xff\x01"), want: compression},
		{name: "half block", send: rawFrame(wire.Headers, wire.EndHeaders, 1, "\x00\x7f"), want: compression},
		{name: "padding", send: append(ok, rawFrame(wire.Data, wire.Padded, 1, "\x05x")...), want: protocol},
		{name: "no padding", send: append(ok, rawFrame(wire.Data, wire.Padded, 1, "")...), want: size},
		{name: "HTTP/1", send: []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), want: size},
		{name: "ping", send: flood(wire.AppendPing(nil, 0, [8]byte{})), want: calm},
		{name: "pong", send: flood(wire.AppendPing(nil, wire.Ack, [8]byte{})), want: calm},
		{name: "settings flood", send: flood(wire.AppendSettings(nil)), want: calm},
		{name: "ack flood", send: flood(wire.AppendSettingsAck(nil)), want: calm},
		{name: "goaway flood", send: flood(wire.AppendGoAway(nil, 1, 0)), want: calm},
		{name: "window flood", send: flood(wire.AppendWindowUpdate(nil, 1, 1)), want: calm},
		{name: "window flood of connection", send: flood(wire.AppendWindowUpdate(nil, 0, 1)), want: calm},
		{name: "priority flood", send: flood(rawFrame(wire.Priority, 0, 1, "\x00\x00\x00\x03\x00")), want: calm},
		{name: "malformed flood", send: flood(rawFrame(wire.Priority, 0, 1, "1234")),
			want: "RST_STREAM FRAME_SIZE_ERROR, " + calm},
		{name: "unknown flood", send: flood(rawFrame(0x77, 0, 0, "")), want: calm},
		{name: "empty data", send: append(ok, flood(dataFrame(1, 0, ""))...), want: calm},
		{name: "padded data", send: append(ok, flood(rawFrame(wire.Data, wire.Padded, 1, "\x0212"))...), want: calm},
		{name: "continuation flood", send: append(rawFrame(wire.Headers, 0, 1, "\x88"),
			flood(rawFrame(wire.Continuation, 0, 1, ""))...), want: calm},
		{name: "endless head", send: append(rawFrame(wire.Headers, 0, 1, "\x88"),
			flood(rawFrame(wire.Continuation, 0, 1, strings.Repeat("\x88", 1<<14)))...), want: calm},
		{name: "reset flood", send: append(wire.AppendRSTStream(nil, 1, wire.Cancel),
			flood(wire.AppendRSTStream(nil, 1, wire.Cancel))...), want: calm, kind: Rejected},
		{name: "head flood", send: append(wire.AppendRSTStream(nil, 1, wire.Cancel),
			flood(headFrame(1, 0, ":status", "200"))...), want: calm, kind: Rejected},
	}
}

// A server that violates the protocol, or sends what has no purpose, costs the request or the
// connection. Other requests succeed, and nothing remains.
func TestHTTP2ServersCannotHarmOtherRequests(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	for _, rows := range [][]hostileRow{hostileStreams(), hostileConnections()} {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testHostile(t, row) })
			})
		}
	}
}

func testHostile(t *testing.T, row hostileRow) {
	var first *http2Peer
	c, _ := serveHTTP2(t, &http.Transport{MaxResponseHeaderBytes: 8 << 10,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1<<16 - 1}}, func(p *http2Peer) {
		p.start()
		for {
			id := p.request()
			switch {
			case id == 0:
				return
			case p.n == 0 && id == 1:
				first = p
				go p.write(row.send) // the client may end the connection before it has read all
			default:
				p.respond(id)
			}
		}
	})
	r := request(t, http.MethodGet, "http://host/", nil)
	if row.after != "" {
		reader, writer := io.Pipe()
		defer writer.Close()
		r = request(t, http.MethodPost, "http://host/", reader)
	}
	_, _, err := send(c, r)
	kind := Malformed
	if row.kind != 0 {
		kind = row.kind
	}
	var known *Error
	isCutOff := row.name == "too short" || row.name == "nothing"
	if !errors.As(err, &known) || known.Kind != kind || errors.Is(err, io.ErrUnexpectedEOF) != isCutOff {
		t.Errorf("error %v, want %v", err, kind)
	}
	synctest.Wait() // a flood ends the connection
	for range 3 {
		wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
	}
	time.Sleep(10 * time.Second)
	first.mu.Lock()
	defer first.mu.Unlock()
	if seen := strings.Join(first.seen, ", "); seen != row.want && !strings.HasPrefix(seen, row.want+", ") {
		t.Errorf("the client sent %q, want %q", seen, row.want)
	}
}

// The responses over HTTP/2 on which the Client and net/http differ are listed here, and in
// docs/transport.md.
func TestTransportReadsHTTP2ResponsesAsListed(t *testing.T) {
	ok := func(fields ...string) []byte {
		return headFrame(1, 0, append([]string{":status", "200"}, fields...)...)
	}
	for _, test := range []struct {
		name         string
		head         []byte // what follows is "hi"
		ours, theirs string // "" for theirs means the same
	}{
		{"plain", ok("content-length", "2"), "200 hi", ""},
		{"two lengths", ok("content-length", "2", "content-length", "2"), "error", "200 hi"},
		{"signed length", ok("content-length", "+2"), "error", "200 hi"},
		{"long content", ok("content-length", "1"), "200  error", "200 h error"},
		{"short content", ok("content-length", "3"), "200 hi error", ""},
		{"content of 204", headFrame(1, 0, ":status", "204"), "204  error", "204 hi"},
		{"101", append(headFrame(1, 0, ":status", "101"), ok()...), "error", "200 hi"},
		{"connection", ok("connection", "close"), "error", "200 hi"},
		{"transfer-encoding", ok("transfer-encoding", "chunked"), "error", "200 hi"},
		{"upgrade", ok("upgrade", "x"), "error", "200 hi"},
		{"status of two digits", headFrame(1, 0, ":status", "20"), "error", "20 hi"},
		{"HEAD", append(ok(), wire.AppendRSTStream(nil, 1, wire.InternalError)...), "200 ", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			theirs := new(http.Transport)
			c, _ := serveHTTP2(t, theirs, func(p *http2Peer) {
				p.start()
				for id := p.request(); id != 0; id = p.request() {
					p.write(slices.Concat(test.head, dataFrame(id, wire.EndStream, "hi")))
				}
			})
			for rt, want := range map[http.RoundTripper]string{c: test.ours, theirs: cmp.Or(test.theirs, test.ours)} {
				got := "error"
				method := map[bool]string{true: http.MethodHead, false: http.MethodGet}[test.name == "HEAD"]
				if resp, err := rt.RoundTrip(request(t, method, "http://host/", nil)); err == nil {
					b, err := io.ReadAll(resp.Body)
					if got = fmt.Sprintf("%d %s", resp.StatusCode, b); err != nil {
						got += " error"
					}
					resp.Body.Close()
				}
				testkit.Equal(t, got, want, test.name, rt)
			}
			synctest.Wait() // then net/http's connection is idle
			theirs.CloseIdleConnections()
		})
	}
}

// http2Peer is a scripted server's end of an HTTP/2 connection.
type http2Peer struct {
	net.Conn
	n       int // of its connection, from 0
	decoder wire.Decoder
	block   wire.HeaderBlock

	mu   sync.Mutex
	seen []string // the codes of GOAWAY and RST_STREAM frames that the client has sent
}

// start reads the preface and sends settings.
func (p *http2Peer) start(settings ...wire.Setting) bool {
	preface := make([]byte, len(wire.Preface))
	if _, err := io.ReadFull(p, preface); err != nil || string(preface) != wire.Preface {
		return false
	}
	p.write(wire.AppendSettings(nil, settings...))
	return true
}

func (p *http2Peer) write(b []byte) { _, _ = p.Write(b) }

func (p *http2Peer) frame() (h wire.FrameHeader, payload []byte, ok bool) {
	var b [wire.FrameHeaderSize]byte
	if _, err := io.ReadFull(p, b[:]); err != nil {
		return h, nil, false
	}
	h, _ = wire.ParseFrameHeader(b[:])
	payload = make([]byte, h.Length)
	if _, err := io.ReadFull(p, payload); err != nil {
		return h, nil, false
	}
	switch {
	case h.Type == wire.GoAway:
		_, code, _ := wire.GoAwayOf(payload)
		p.note("GOAWAY " + code.String())
	case h.Type == wire.RSTStream:
		p.note("RST_STREAM " + wire.RSTStreamOf(payload).String())
	case h.Type == wire.Settings && !h.Flags.Has(wire.Ack):
		p.write(wire.AppendSettingsAck(nil))
	}
	return h, payload, true
}

func (p *http2Peer) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, what)
}

// request reads frames until a head arrives, and returns its stream; 0 at the end.
func (p *http2Peer) request() uint32 {
	for {
		h, payload, ok := p.frame()
		if !ok {
			return 0
		}
		if h.Type == wire.Headers {
			if err := p.decoder.Decode(payload, limitsOfTests, &p.block); err != nil {
				p.note(err.Error())
			}
			return h.StreamID
		}
	}
}

// headFrame returns a HEADERS frame: names and values, from :status on.
func headFrame(id uint32, flags wire.Flags, fields ...string) []byte {
	b := wire.AppendHeaders(nil, id)
	for i := 0; i < len(fields); i += 2 {
		b = append(b, 0) // a literal, whose name may be invalid
		b = append(append(b, byte(len(fields[i]))), fields[i]...)
		b = append(append(b, byte(len(fields[i+1]))), fields[i+1]...)
	}
	wire.AddFrameFlags(b, flags)
	return wire.EndBlock(b, 0, wire.MinMaxFrameSize)
}

func dataFrame(id uint32, flags wire.Flags, text string) []byte {
	h := wire.FrameHeader{Length: uint32(len(text)), Type: wire.Data, Flags: flags, StreamID: id}
	return append(wire.AppendFrameHeader(nil, h), text...)
}

// rawFrame returns a frame of any kind.
func rawFrame(kind wire.FrameType, flags wire.Flags, id uint32, payload string) []byte {
	h := wire.FrameHeader{Length: uint32(len(payload)), Type: kind, Flags: flags, StreamID: id}
	return append(wire.AppendFrameHeader(nil, h), payload...)
}

// respond sends a short response.
func (p *http2Peer) respond(id uint32) {
	p.write(append(headFrame(id, 0, ":status", "200"), dataFrame(id, wire.EndStream, "hello")...))
}

// serveHTTP2 runs a script on each connection that a Client with the settings opens to a server
// without TLS. All of it ends with the test.
func serveHTTP2(t *testing.T, set *http.Transport, script func(p *http2Peer)) (c *Client, dials func() int) {
	nw := new(testkit.Network)
	l := nw.Listen()
	var count atomic.Int64
	wait := testkit.Accept(l, func(n int, nc net.Conn) {
		count.Add(1)
		script(&http2Peer{Conn: nc, n: n, decoder: wire.NewDecoder(wire.DefaultTableSize)})
	})
	set.Protocols = new(http.Protocols)
	set.Protocols.SetHTTP2(true)
	set.Protocols.SetUnencryptedHTTP2(true)
	set.DialContext = func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }
	c = New(&Config{Settings: set})
	t.Cleanup(func() {
		c.CloseIdleConnections()
		l.Close()
		wait()
	})
	return c, func() int { return int(count.Load()) }
}

// send sends a request and reads the response.
func send(c *Client, r *http.Request) (*http.Response, string, error) { return sendCall(c, r, nil) }

// wantText sends a request whose response must have a body.
func wantText(t *testing.T, c *Client, r *http.Request, want string) {
	t.Helper()
	if _, text, err := send(c, r); text != want || err != nil {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// sendCall is send for a Call.
func sendCall(c *Client, r *http.Request, call *Call) (*http.Response, string, error) {
	resp, err := c.Do(r, call)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	return resp, string(b), err
}

// recorder is the Hooks of a Call.
type recorder struct {
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
	addr          string
	interim, ends []string
	stderr        string
}

func (r *recorder) Dial(ctx context.Context) (net.Conn, error) { return r.dial(ctx, "tcp", r.addr) }

func (r *recorder) Interim(status int, h http.Header) {
	r.interim = append(r.interim, http.StatusText(status)+h.Get("Link"))
}

func (r *recorder) Ended(sent, received int64) {
	r.ends = append(r.ends, fmt.Sprint(sent, " ", received))
}

func (r *recorder) Stderr(text []byte) { r.stderr += string(text) }
