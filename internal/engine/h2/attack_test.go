package h2

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// A client may reset a stream whose response waits for windows, and open the window at the same
// time. What the stream has reserved is returned to the connection.
func TestResetReturnsReservedWindow(t *testing.T) {
	for _, order := range []string{"update, reset", "reset, update"} {
		synctest.Test(t, func(t *testing.T) {
			body := strings.Repeat("x", 100<<10)
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			window := 1<<16 - 1 // of the connection
			for id := uint32(1); id < 200; id += 2 {
				p.respond(id, 1)
				if order == "update, reset" {
					p.framer.WriteWindowUpdate(id, 60<<10)
				}
				p.send(fmt.Sprintf("RST_STREAM %d, WINDOW_UPDATE 0 61440", id))
				testkit.Equal(t, p.receive(), true, order, "the session goes on after stream", id)
				synctest.Wait()
				p.session.Flush()
				testkit.Equal(t, p.pending(), 0, order, "bytes count as output after stream", id)
				id += 2
				p.respond(id, 1) // credits for the ledger
				p.send(fmt.Sprintf("WINDOW_UPDATE %d 1000000, WINDOW_UPDATE 0 1000000", id))
				p.receive()
				synctest.Wait()
				p.session.Flush()
				p.rest()
				window += 61440 + 1000000
				testkit.Equal(t, int(p.session.sendWindow), window-p.data, order, "window after stream", id)
			}
			p.send(strings.Repeat("WINDOW_UPDATE 0 1, ", p.data/256+4000))
			testkit.Equal(t, p.receive(), false, order, "DATA that was not sent pays for updates")
		})
	}
	p := openPeer(t, nil, hello)
	p.get(1)
	st := p.received()
	p.session.sendWindow = 3
	testkit.Equal(t, st.TrySend([]byte("data")), connection.Refused, "beyond the connection's window")
	p.session.sendWindow, p.accepts = 1<<16-1, 0
	p.session.output.out = wire.AppendPing(nil, 0, [8]byte{})
	testkit.Equal(t, st.TrySend([]byte("data")), connection.Refused, "before other output")
	p.accepts = -1
	p.session.Flush()
	testkit.Equal(t, testkit.Value(st.reserveLocked(100, 0))(t), 100)
	p.discard()
	p.send("SETTINGS 65536, GET 3 /%zz, RST_STREAM 1")
	p.receive()
	st.unreserveLocked()
	p.session.Flush()
	p.wantRest("HEADERS 400 end, SETTINGS ack") // a body might exceed the window of before
	testkit.Equal(t, fmt.Sprint(p.pending(), p.session.sendWindow), "0 65535", "output and window in the end")
}

// What the server does at limits that h2spec does not test. As with net/http, a body that is
// shorter than its Content-Length is an error of Read, and the handler responds. The client has not
// left.
func TestLimitsOfFrames(t *testing.T) {
	const hello200, short = "HEADERS 200, DATA hello end", "POST 1 /report content-length=3 trailer=sum, "
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/report":
			fmt.Fprint(w, string(body), err != nil, r.Context().Err(), r.Trailer)
		case "/":
			io.WriteString(w, "hello")
		}
	}
	for _, test := range []struct{ frames, want string }{
		{"GET 5, DATA 2 body end", "GOAWAY PROTOCOL_ERROR"}, // on a stream of the server, which opens none
		{"POST 1, SETTINGS 2147483647, DATA 1 x end", "SETTINGS ack, " + hello200},
		{"PRIORITY_UPDATE 0 x*1017, GET 1", hello200},
		{"POST 1" + strings.Repeat(", DATA 1", 3000) + ", RST_STREAM 1", "GOAWAY ENHANCE_YOUR_CALM"}, // each costs a unit
		{"POST 1, DATA 1 x*600, DATA 1 x*600", "RST_STREAM FLOW_CONTROL_ERROR"},
		{"POST 1, PADDED-DATA 1 x*800 end", "RST_STREAM FLOW_CONTROL_ERROR"},
		{"POST 1 content-length=3, DATA 1 xxxx", "RST_STREAM PROTOCOL_ERROR"},
		{short + "DATA 1 ab end", "HEADERS 200, DATA abtrue <nil> map[Sum end"},
		{short + "DATA 1 ab, TRAILERS 1", "HEADERS 200, DATA abtrue <nil> map[Sum end"},
		{"GET 1 /empty", "HEADERS 200 end"}, // one frame
		// padding leaves the stream's window as it is
		{"POST 1" + strings.Repeat(", PADDED-DATA 1 x", 10) + ", DATA 1 x end",
			strings.Repeat("WINDOW_UPDATE, ", 10) + hello200},
	} {
		p := openPeer(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}, handler)
		p.exchange(test.frames, test.want)
		testkit.Equal(t, int(p.started.Load()), strings.Count(test.want, "HEADERS"), "handlers begin")
	}
	p := openPeer(t, nil, hello)
	p.send("GET 1, WINDOW_UPDATE 1 1")
	const window = http2.SettingInitialWindowSize // of which each value counts
	p.framer.WriteSettings(http2.Setting{ID: window, Val: 1<<31 - 1}, http2.Setting{ID: window, Val: 1<<16 - 1})
	p.exchange("", "GOAWAY FLOW_CONTROL_ERROR")
	p = newPeer(t, nil, hello)
	p.input.WriteString(preface)
	p.framer.WriteSettingsAck() // before SETTINGS
	p.exchange("", "SETTINGS, WINDOW_UPDATE, GOAWAY PROTOCOL_ERROR")
}

// A body that is larger than its stream's window arrives while the handler reads it, and takes no
// more memory than what is unread. Close ends a Read that waits.
func TestReadingOpensTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var body io.Closer
		p := openPeer(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}, func(w http.ResponseWriter, r *http.Request) {
			body = r.Body
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, " ", err)
		})
		p.serve("POST 1, DATA 1 x*1000")
		p.wantRest("WINDOW_UPDATE")
		p.serve("DATA 1 x*1000 end")
		p.wantRest("HEADERS 200, DATA 2000 <nil> end")
		p.serve("POST 3")
		body.Close()
		synctest.Wait()
		p.wantRest("HEADERS 200, DATA 0 http: invalid Read end")
		p.send("POST 5")
		st := p.received()
		st.storeLocked(make([]byte, 100))
		for range 1000 { // a handler that always leaves something
			st.storeLocked(make([]byte, 100))
			st.consumeLocked(100)
		}
		testkit.Between(t, st.body.Cap(), 0, 1000, "bytes of the body's buffer")
	})
}

// A client may reduce the windows after it has opened one. What the server then sends after the
// acknowledgment obeys the reduced windows, or the client takes it for an error.
func TestAcknowledgedSettingsLimitData(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 300)) })
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 200})
			p.respond(1, 1)
			p.discard()
			p.send("WINDOW_UPDATE 1 100, SETTINGS 100")
			p.receive()
			synctest.Wait()
			p.wantLast(" end, SETTINGS ack")
		})
	}
}

// The heads of a session's requests together have a limit, because a few bytes of each may refer to
// large fields. Requests that have ended do not count.
func TestLargeHeadsAreLimitedTogether(t *testing.T) {
	p := openPeer(t, nil, hello, func(c *Config) { c.Exchanges.Limits.Bytes = 1 << 10 })
	for _, first := range []uint32{1, 7} {
		for id := first; id < first+6; id += 2 {
			p.get(id, "x", strings.Repeat("a", 800))
		}
		p.exchange("", "RST_STREAM REFUSED_STREAM, HEADERS 200, DATA hello end, HEADERS 200, DATA hello end")
	}
}

// Each incomplete frame has HeadTimeout of its own, however the client's writes split its frames.
func TestHeadTimeoutStartsWithEachFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPeer(t, nil, hello)
		for id := uint32(1); id < 200; id += 2 {
			p.get(id)
			all := p.input.String()
			last := len(all) - 5 // the last five bytes arrive with the next frame
			p.input.Truncate(last)
			testkit.Equal(t, p.pump(), true, "the session goes on")
			p.input.WriteString(all[last:])
			p.rest()
			time.Sleep(time.Second)
			if at := p.session.WaitDeadline(); !at.IsZero() && !time.Now().Before(at) && p.session.Expire() {
				t.Fatalf("the connection was closed after %d requests, of which each took a second", id/2)
			}
		}
	})
}

// A client whose heads refer to large entries of the dynamic table makes the server hold no more
// memory than one that sends the fields.
func TestHeadsOfIndexedFieldsUseBoundedMemory(t *testing.T) {
	p := openPeer(t, nil, hello)
	value := strings.Repeat("x", 4000)
	fields := h2test.Head("POST", "/")
	for range 250 {
		fields = append(fields, "x", value)
	}
	sent := 0
	before := testkit.InUse()
	for id := uint32(1); id < 2*200; id += 2 {
		p.request(id, false, fields...)
		sent += p.input.Len()
		if !p.receive() {
			break
		}
	}
	testkit.Between(t, testkit.InUse(), 0, before+64<<20, sent, "bytes of frames: memory")
	runtime.KeepAlive(p)
}

// received passes the frames to the session, and returns the stream that is ready, if any.
func (p *peer) received() *Stream {
	p.Helper()
	testkit.Equal(p, p.receive(), true, "the session goes on")
	return p.session.Next()
}

// A handler whose client has reset the stream or has left can read the body if all of it has
// arrived. The client's window is not affected, and the memory of such bodies is limited.
func TestWholeBodyIsReadAfterTheStreamsEnd(t *testing.T) {
	const size = 60 << 10
	upload := "POST ID" + strings.Repeat(", DATA ID x*15360", size/15360)
	whole, closed := fmt.Sprint(size, " <nil>"), "0 http2: stream closed"
	var got string
	p := newPeer(t, &http.HTTP2Config{MaxReceiveBufferPerConnection: 1<<16 - 1},
		func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			got = fmt.Sprint(len(body), " ", err)
		})
	p.input.WriteString(preface)
	p.exchange("SETTINGS 65535", "SETTINGS, SETTINGS ack") // the connection's window is as it should be
	id := ^uint32(0)
	reset := func(ends, begins bool) (st *Stream) {
		id += 2
		frames := upload
		if ends {
			frames += " end"
		}
		p.sendOn(id, frames)
		if begins {
			st = p.received()
		}
		p.sendOn(id, "RST_STREAM ID")
		testkit.Equal(t, p.received() == nil, true, "the handler of a stream that was reset before does not begin")
		return st
	}
	run := func(st *Stream, want string) {
		t.Helper()
		st.Run(nil, 0)
		testkit.Equal(t, got, want, "the handler has read")
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
	p.sendOn(id+2, upload+" end")
	st := p.received()
	p.session.Closed()
	run(st, whole)
}
