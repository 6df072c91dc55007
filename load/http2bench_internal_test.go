package load

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// BenchmarkHTTP2 measures the cost of a request and its response on an HTTP/2 connection, without
// the socket.
func BenchmarkHTTP2(b *testing.B) {
	text := http2Protocol{}.render(nil, &request{url: parsedURL{host: "a", target: "/"}, method: "GET"},
		address{}, false)
	r := http2Protocol{}.newReaders(1, readerConfig{tally: new(tally), expected: new(expectation),
		maxInFlight: 1})[0].(*http2Reader)
	var block, frames bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	in := func(id uint32) []byte {
		block.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "server", Value: "nginx/1.22.1"},
			{Name: "date", Value: "Mon, 02 Jan 2006 15:04:05 GMT"},
			{Name: "content-type", Value: "text/plain; charset=utf-8"}, {Name: "content-length", Value: "12"}} {
			_ = encoder.WriteField(f)
		}
		frames.Reset()
		framer := http2.NewFramer(&frames, nil)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = framer.WriteData(id, true, []byte("Hello World\n"))
		return frames.Bytes()
	}
	var out []byte
	var a response
	exchange := func(response []byte) {
		for len(response) > 0 {
			n, err := r.consume(response, &a)
			if err != nil {
				b.Fatal(err)
			}
			response = response[n:]
		}
		if a.stage != complete || a.streamError != "" {
			b.Fatalf("%+v", a)
		}
	}
	out, _ = r.appendRequest(out[:0], text, false, 0)
	exchange(in(1)) // fills the table
	later := bytes.Clone(in(3))
	second := bytes.LastIndex(later, []byte("\x00\x00\x0c\x00\x01"))
	b.ReportAllocs()
	for b.Loop() {
		if r.next > 1<<30 {
			r.next = 3
		}
		id := r.next
		out, _ = r.appendRequest(out[:0], text, false, 0)
		binary.BigEndian.PutUint32(later[5:], id)
		binary.BigEndian.PutUint32(later[second+5:], id)
		exchange(later)
	}
}
