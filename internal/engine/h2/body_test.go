package h2_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine/h2"
)

// upload writes a request with size bytes of body.
func (p *peer) upload(id uint32, size int, ends bool) {
	p.post(id)
	for size > 0 {
		n := min(size, 16<<10)
		size -= n
		p.framer.WriteData(id, ends && size == 0, make([]byte, n))
	}
}

// received passes the frames to the session, and returns the stream that is ready.
func (p *peer) received() *h2.Stream {
	p.Helper()
	if !p.receive() {
		p.Fatal("the session has ended")
	}
	p.session.Flush()
	return p.session.Next()
}

// A handler whose client has reset the stream or has left can read the body if all of it has
// arrived. The client's window is not affected, and the memory of such bodies is limited.
func TestWholeBodyIsReadAfterTheStreamsEnd(t *testing.T) {
	const size = 60 << 10
	whole, closed := fmt.Sprint(size, " <nil>"), "0 http2: stream closed"
	var got string
	p := newPeer(t, &http.HTTP2Config{MaxReceiveBufferPerConnection: 1<<16 - 1},
		func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			got = fmt.Sprint(len(body), " ", err)
		})
	p.input.WriteString(preface)
	p.framer.WriteSettings()
	p.pump()
	id := ^uint32(0)
	reset := func(ends, begins bool) (st *h2.Stream) {
		id += 2
		p.upload(id, size, ends)
		if begins {
			st = p.received()
		}
		p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		if p.received() != nil {
			t.Error("the handler of a stream begins that was reset before")
		}
		return st
	}
	run := func(st *h2.Stream, want string) {
		t.Helper()
		if st.Run(nil, 0); got != want {
			t.Errorf("the handler has read %s, want %s", got, want)
		}
	}
	run(reset(true, true), whole)
	run(reset(false, true), closed)
	kept, dropped := reset(true, true), reset(true, true)
	run(dropped, closed)
	run(kept, whole)
	for range 3 {
		reset(true, false)
	}
	run(reset(true, true), whole)
	p.upload(id+2, size, true)
	st := p.received()
	p.session.Closed()
	run(st, whole)
}

// As with net/http, a body that is shorter than its Content-Length is an error of Read, and the
// handler responds. The client has not left.
func TestShortBodyIsAnErrorOfRead(t *testing.T) {
	for name, end := range map[string]func(*peer){
		"DATA":     func(p *peer) { p.framer.WriteData(1, true, []byte("ab")) },
		"trailers": func(p *peer) { p.framer.WriteData(1, false, []byte("ab")); p.request(1, true, "sum", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(body), err != nil, r.Context().Err(), r.Trailer)
			})
			p.open()
			p.post(1, "content-length", "3", "trailer", "sum")
			end(p)
			p.pump()
			p.wantRest("HEADERS 200, DATA abtrue <nil> map[Sum end")
		})
	}
}
