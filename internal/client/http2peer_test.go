package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

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

// frame reads a frame.
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

// dataFrame returns a DATA frame.
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
	var running sync.WaitGroup
	var mu sync.Mutex
	count := 0
	running.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			count++
			mu.Unlock()
			running.Go(func() {
				defer nc.Close()
				script(&http2Peer{Conn: nc, n: n, decoder: wire.NewDecoder(wire.DefaultTableSize)})
			})
		}
	})
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	set.Protocols = &plain
	set.DialContext = func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }
	c = New(&Config{Settings: set})
	t.Cleanup(func() {
		c.CloseIdleConnections()
		l.Close()
		running.Wait()
	})
	return c, func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// send sends a request and reads the response.
func send(c *Client, r *http.Request) (*http.Response, string, error) { return sendCall(c, r, nil) }

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
