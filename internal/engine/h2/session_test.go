package h2

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
)

// Frames take effect however the input is split.
func TestInputIsSplitAnywhere(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(body), err, r.Trailer)
	}
	p := newPeer(t, nil, handler)
	p.input.WriteString(preface)
	p.framer.WriteSettings()
	p.send("POST 1 trailer=sum content-length=5, PADDED-DATA 1 he, DATA 1 llo, TRAILERS-IN-TWO 1, EXTENSION 0 any, PING")
	got := testkit.EverySplit(t, p.input.Bytes(), func(pieces [][]byte) string {
		p := newPeer(t, nil, handler)
		for _, piece := range pieces {
			testkit.Equal(t, p.session.Receive(slices.Clone(piece)), true, "the session goes on")
		}
		p.pump()
		return p.rest()
	})
	testkit.Equal(t, got, "SETTINGS, WINDOW_UPDATE, SETTINGS ack, PING ack, HEADERS 200, DATA 5 <nil> map[Sum:[1]] end")
}

// A trailer section over its limit resets its stream only.
func TestLargeTrailerSectionResetsStream(t *testing.T) {
	p := openPeer(t, nil, hello)
	p.request(1, false, ":method", "POST", ":scheme", "http", ":path", "/", "trailer", "sum")
	p.request(1, true, "sum", strings.Repeat("~", exchange.MaxTrailerBytes))
	p.request(3, false, h2test.Head("POST", "/")...)
	p.request(3, true, slices.Repeat([]string{"accept", ""}, 1001)...)
	p.exchange("GET 5", "RST_STREAM PROTOCOL_ERROR, RST_STREAM PROTOCOL_ERROR, HEADERS 200, DATA hello end")
}

// The most urgent of several responses that wait is sent first. Of equally urgent ones, those that
// the client cannot use in parts are sent one after another, before the others, which take turns
// (RFC 9218, 10).
func TestUrgentResponsesAreFirst(t *testing.T) {
	p := newPeer(t, nil, hello)
	s, got := p.session, ""
	for _, st := range []Stream{{id: 9, urgency: 3}, {id: 1, urgency: 5}, {id: 7, urgency: 1, incremental: true},
		{id: 3, urgency: 1}, {id: 13, urgency: 3, incremental: true}, {id: 11, urgency: 3, incremental: true},
		{id: 5, urgency: 3}} {
		s.output.waiting = append(s.output.waiting, &Stream{session: s, id: st.id, urgency: st.urgency,
			incremental: st.incremental, sendWindow: 1, wants: 1})
	}
	s.sendWindow = 0
	testkit.Equal(t, s.mostUrgentLocked(), -1, "the stream that the connection's window permits")
	s.sendWindow = 1
	for len(s.output.waiting) > 0 {
		next := s.mostUrgentLocked()
		got += fmt.Sprint(s.output.waiting[next].id, " ")
		s.output.waiting = slices.Delete(s.output.waiting, next, next+1)
	}
	testkit.Equal(t, got, "3 7 5 9 13 11 1 ", "the order of the streams")
}

// After Retire the next response announces the end, so that the client uses another connection. So
// does a server whose keep-alives were disabled, after a response.
func TestEndIsAnnouncedWithResponse(t *testing.T) {
	for want, set := range map[string]func(*exchange.ServerState){
		"GOAWAY NO_ERROR, PING, HEADERS 200, DATA hello end": func(s *exchange.ServerState) { s.Retired.Store(true) },
		"HEADERS 200, DATA hello end, GOAWAY NO_ERROR, PING": func(s *exchange.ServerState) { s.KeepAlivesDisabled.Store(true) },
	} {
		p := openPeer(t, nil, hello)
		set(p.session.config.Exchanges.Server)
		p.exchange("GET 1", want)
	}
}

// Fields that HTTP/2 forbids are not sent, and Connection: close ends the connection in order.
func TestConnectionFieldsAreNotSent(t *testing.T) {
	p := openPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
			w.Header().Set(name, "close")
		}
		w.Header()["X-Kept"] = []string{" a b\t", "a\x00b", "a\r\nb"} // the others are invalid
		io.WriteString(w, "hello")
	})
	p.get(1)
	p.pump()
	testkit.Equal(t, p.next()+p.next(), "GOAWAY NO_ERRORPING")
	got := ""
	for _, field := range testkit.Value(p.reader.ReadFrame())(t).(*http2.MetaHeadersFrame).RegularFields() {
		if field.Name != "date" {
			got += field.Name + "=" + field.Value + " "
		}
	}
	testkit.Equal(t, got, "x-kept=a b content-length=5 content-type=text/plain; charset=utf-8 ")
}

// A client that reduces its table requires the next block, of whatever kind, to say that the server
// has done so (RFC 7541, 4.2).
func TestBlocksAnnounceAnEmptyTable(t *testing.T) {
	p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusEarlyHints)
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		w.Header().Set("Sum", "1")
	})
	p.open(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	p.send("POST 1 expect=100-continue, DATA 1 x end, GET 3 /%zz") // the last one is refused
	p.pump()
	p.reader.ReadMetaHeaders = nil
	blocks := 0
	for f, err := p.reader.ReadFrame(); err == nil; f, err = p.reader.ReadFrame() {
		if h, ok := f.(*http2.HeadersFrame); ok {
			blocks++
			testkit.Equal(t, h.HeaderBlockFragment()[0], 0x20, "stream", h.StreamID, "block", blocks, "begins with")
		}
	}
	// early hints, final head, trailers, 400
	testkit.Between(t, blocks, 4, 5, "blocks")
}

// An idle connection keeps its session. Each request has a stream. Their sizes are those of classes
// of the allocator.
func TestTypesFitTheirSizeClasses(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	testkit.Between(t, unsafe.Sizeof(Session{}), 1, 896, "bytes of a session")
	testkit.Between(t, unsafe.Sizeof(Stream{}), 1, 256, "bytes of a stream")
}

// An idle session keeps neither its last stream nor a buffer for input.
func TestIdleSessionHoldsNoStream(t *testing.T) {
	p := openPeer(t, nil, hello)
	for id := uint32(1); id < 100; id += 2 {
		p.get(id)
		if id%20 == 1 {
			all := p.input.String()
			p.input.Truncate(len(all) - 3) // a frame that is received in two parts
			p.pump()
			p.input.WriteString(all[len(all)-3:])
		}
	}
	for id := uint32(101); id < 301; id += 2 {
		p.get(id)
	}
	p.pump()
	testkit.Between(t, p.session.mostStreams, 0, keptStreams, "it holds a table for streams:")
	testkit.Equal(t, p.holdsStream(), false, "it holds a stream")
	testkit.Equal(t, p.buffered(), 0, "bytes of input that it holds")
}

// A small GET costs the exchange, the text of its head, the map of its fields, and the stream. The
// content of a response's field is the handler's.
func TestAllocationsOfSmallGET(t *testing.T) {
	testkit.NoRace(t, "it allocates")
	body := []byte("hello")
	p := openPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	id := uint32(1)
	run := func() {
		p.get(id)
		id += 2
		p.pump()
		p.discard()
	}
	run() // fills the tables
	const budget, ofTest = 4, 1
	testkit.Between(t, testkit.Allocs(1000, run), 0, budget+ofTest, "allocations")
}

// Handlers that return together have their responses sent together, and none is lost, with any number
// of threads.
func TestResponsesThatEndTogetherLeaveTogether(t *testing.T) {
	// whose clock stands still, so that no goroutine is late on a busy machine
	synctest.Test(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
		const streams, rounds = 32, 20
		for _, threads := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(threads)
			for round := range rounds {
				release := make(chan struct{})
				p := openPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
					<-release
					for range round {
						runtime.Gosched()
					}
					hello(w, r)
				})
				for i := range uint32(streams) {
					p.get(2*i + 1)
				}
				p.receive()
				wait := p.runReady()
				for p.started.Load() < streams {
					runtime.Gosched()
				}
				before := p.sends
				close(release)
				wait()
				testkit.Equal(t, strings.Count(p.rest(), "DATA hello end"), streams, threads, "threads: responses")
				// one or two, but in race builds goroutines run in any order
				if n := p.sends - before; threads == 1 && round == 0 && n > streams*3/4 {
					t.Errorf("%d responses took %d writes", streams, n)
				}
			}
		}
	})
}

// A malformed request, or one with a :protocol that RFC 8441 does not allow, receives a response.
// If it is complete, its stream is also reset, as h2spec requires. Other streams go on. wire/http2
// tests the grammar.
func TestMalformedRequestsReceive400(t *testing.T) {
	get := h2test.Head("GET", "/")
	connect := []string{":method", "CONNECT", ":scheme", "http", ":authority", "a", ":protocol", "websocket", ":path"}
	for name, fields := range map[string][]string{
		"upper case":   append(get[:8:8], "X-Malformed", "1"),
		"no path":      get[:6],
		"status":       append([]string{":status", "200"}, get...),
		"escape":       append(get[:7:7], "/%zz"), // which is not malformed by HTTP/2's rules
		"wrong target": append(connect[:9:9], "a:80"),
		"not offered":  append(connect[:9:9], "/"),
	} {
		for _, ends := range []bool{true, false} {
			p := openPeer(t, nil, hello, func(c *Config) { c.ExtendedConnect = name != "not offered" })
			p.request(1, ends, fields...)
			p.get(3)
			p.pump()
			got := p.rest()
			if !strings.HasPrefix(got, "HEADERS 400, DATA 400 Bad Request") ||
				!strings.HasSuffix(got, "HEADERS 200, DATA hello end") || p.started.Load() != 1 ||
				strings.Contains(got, "RST_STREAM PROTOCOL_ERROR") != (ends && name != "escape") {
				t.Errorf("%s: the server has sent %s; %d handlers have run", name, got, p.started.Load())
			}
		}
	}
}

// A request whose END_STREAM contradicts its Content-Length is malformed. Its response is no longer
// than the client's windows permit.
func TestRequestWithoutItsBodyReceives400(t *testing.T) {
	for window, want := range map[uint32]string{65535: "HEADERS 400, DATA 400 Bad Request: bod end", 0: "HEADERS 400 end"} {
		p := newPeer(t, nil, hello)
		p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
		p.exchange("GET 1 content-length=5", want+", RST_STREAM PROTOCOL_ERROR")
		testkit.Equal(t, p.session.sendWindow < 65535, window > 0, "it takes a part of the window")
	}
}

// The server offers extended CONNECT by SETTINGS only if it is enabled. Tunnels count as streams.
func TestExtendedConnectIsOfferedIfEnabled(t *testing.T) {
	for _, offers := range []bool{false, true} {
		p := newPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 2}, hello,
			func(c *Config) { c.ExtendedConnect = offers })
		p.input.WriteString(preface)
		p.framer.WriteSettings()
		p.receive()
		f := testkit.Value(p.reader.ReadFrame())(t)
		v, _ := f.(*http2.SettingsFrame).Value(http2.SettingEnableConnectProtocol)
		testkit.Equal(t, v == 1, offers, "the setting")
		p.rest()
		for _, id := range []uint32{1, 3, 5} {
			p.request(id, false, ":method", "CONNECT", ":scheme", "http", ":authority", "a", ":path", "/",
				":protocol", "websocket")
		}
		if p.receive(); offers {
			p.wantRest("RST_STREAM REFUSED_STREAM")
		}
	}
}
