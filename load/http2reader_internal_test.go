package load

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	http2x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http2"
)

// The unsent rest of a body is not sent on the next connection.
func TestHTTP2ReaderDropsUnsentBodyOnReset(t *testing.T) {
	q := &request{url: parsedURL{host: "a", target: "/"}, method: "POST",
		body: strings.Repeat("b", 2*http2.InitialWindow)}
	text := http2Protocol{}.render(nil, q, address{}, false)
	r := http2Protocol{}.newReaders(1, readerConfig{tally: new(tally), expected: new(expectation),
		maxInFlight: 2})[0].(*http2Reader)
	for _, slot := range []int{0, 1} {
		out, _ := r.appendRequest(nil, text, false, slot)
		if n := bytes.Count(out, []byte("b")); slot == 0 && (n < http2.InitialWindow || n >= 2*http2.InitialWindow) {
			t.Fatalf("%d bytes of the body were sent at once", n)
		}
	}
	r.reset()
	if out, _ := r.appendRequest(nil, http2Protocol{}.render(nil, &request{url: q.url, method: "GET"},
		address{}, false), false, 0); len(out) == 0 {
		t.Error("no request is sent on the new connection")
	}
	if out := r.appendReplies(nil); len(out) > 0 {
		t.Errorf("%d bytes are sent on the new connection without a request", len(out))
	}
}

// describeHTTP2 passes pieces of input to a reader that has sent a request, and returns the result.
func describeHTTP2(pieces [][]byte) string {
	r := http2Protocol{}.newReaders(1, readerConfig{tally: new(tally), expected: new(expectation), maxInFlight: 1})[0]
	text := http2Protocol{}.render(nil, &request{url: parsedURL{host: "a", target: "/"}, method: "GET"},
		address{}, false)
	r.(*http2Reader).appendRequest(nil, text, false, 0)
	for _, piece := range pieces {
		for len(piece) > 0 {
			var a response
			n, err := r.consume(piece, &a)
			switch {
			case err != nil:
				return err.Error()
			case a.streamError != "":
				return a.streamError
			case a.stage == complete:
				return fmt.Sprint("status ", a.status, ", body ", a.body)
			}
			piece = piece[n:]
		}
	}
	return "incomplete"
}

// A response may arrive in any pieces, and its header block in any number of frames. Frames that do
// not belong together are errors.
func TestHTTP2ReaderParsesEverySplit(t *testing.T) {
	var block, frames bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func(fields ...string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(block.Bytes())
	}
	f := http2x.NewFramer(&frames, nil)
	f.AllowIllegalWrites = true
	headers := func(id uint32, ends, isWhole bool, block []byte) {
		f.WriteHeaders(http2x.HeadersFrameParam{StreamID: id, EndStream: ends, EndHeaders: isWhole,
			BlockFragment: block})
	}
	const ok = "status 200, body 5"
	for _, test := range []struct {
		name, want string
		write      func()
	}{
		{"plain", ok, func() {
			f.WriteSettings(http2x.Setting{ID: http2x.SettingMaxConcurrentStreams, Val: 9})
			headers(1, false, true, encode(":status", "200", "x", "y", "content-length", "5"))
			f.WriteData(1, true, []byte("hello"))
		}},
		{"fragments", ok, func() {
			b := encode(":status", "200", "x", "yz")
			headers(1, false, false, b[:1])
			f.WriteContinuation(1, false, b[1:3])
			f.WriteContinuation(1, false, nil)
			f.WriteContinuation(1, true, b[3:])
			f.WriteData(1, true, []byte("hello"))
		}},
		{"interim, padding, trailers", ok, func() {
			headers(3, true, true, encode(":status", "200", "x", "y")) // of no stream, but of the table
			headers(1, false, true, encode(":status", "103", "x", "y"))
			headers(1, false, true, encode(":status", "200", "x", "y"))
			f.WriteDataPadded(1, false, []byte("hello"), make([]byte, 9))
			f.WritePing(false, [8]byte{1})
			headers(1, true, true, encode("sum", "1"))
		}},
		{"ends in CONTINUATION", "status 404, body 0", func() {
			headers(1, true, false, encode(":status", "404"))
			f.WriteContinuation(1, true, nil)
		}},
		{"no status", "malformed response: missing or invalid :status", func() {
			headers(1, true, true, encode("x", "y"))
		}},
		{"no response", "the server ended the stream before a response", func() { f.WriteData(1, true, nil) }},
		{"wrong length", "body of 1 bytes, but content-length is 2", func() {
			headers(1, false, true, encode(":status", "200", "content-length", "2"))
			f.WriteData(1, true, []byte("x"))
		}},
		{"CONTINUATION alone", "do not match", func() { f.WriteContinuation(1, true, nil) }},
		{"CONTINUATION of another", "do not match", func() {
			headers(1, true, false, nil)
			f.WriteContinuation(3, true, nil)
		}},
		{"DATA in a block", "do not match", func() { headers(1, true, false, nil); f.WriteData(1, true, nil) }},
		{"reset", "the server reset the stream: CANCEL", func() { f.WriteRSTStream(1, http2x.ErrCodeCancel) }},
		{"goes away", "the server closed the connection: PROTOCOL_ERROR \"why\"", func() {
			f.WriteGoAway(1, http2x.ErrCodeProtocol, []byte("why"))
		}},
		{"bad setting", "FLOW_CONTROL_ERROR", func() {
			f.WriteSettings(http2x.Setting{ID: http2x.SettingInitialWindowSize, Val: 1 << 31})
		}},
		{"push", "PUSH_PROMISE", func() {
			f.WritePushPromise(http2x.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		}},
		{"bad index", "COMPRESSION_ERROR", func() { headers(1, true, true, []byte{0xff, 0x70}) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			encoder = hpack.NewEncoder(&block)
			frames.Reset()
			test.write()
			if got := testkit.EverySplit(t, frames.Bytes(), describeHTTP2); !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	for name, write := range map[string]func(){
		"frame": func() { f.WriteRawFrame(http2x.FrameData, 0, 1, make([]byte, http2.MinMaxFrameSize+1)) },
		"block": func() {
			headers(1, true, false, nil)
			for range 1 + maxHead/http2.MinMaxFrameSize {
				f.WriteContinuation(1, false, make([]byte, http2.MinMaxFrameSize))
			}
		},
		"list": func() {
			for range 30 {
				headers(1, false, true, encode(append([]string{":status", "103"},
					slices.Repeat([]string{"x", strings.Repeat("y", 3000)}, 30)...)...))
			}
		},
	} {
		encoder = hpack.NewEncoder(&block)
		frames.Reset()
		write()
		got := describeHTTP2([][]byte{frames.Bytes()})
		if !strings.Contains(got, "header block of more than") && !strings.Contains(got, "frame larger than") {
			t.Errorf("large %s: got %s", name, got)
		}
	}
}
