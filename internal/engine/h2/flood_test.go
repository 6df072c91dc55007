package h2

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
)

// A client that causes work without an end, or sends frames of an open stream that carry little or
// nothing, loses its connection.
func TestFloodsEndTheConnection(t *testing.T) {
	const streams = "POST 1, POST 3, POST 5" // the second one is refused, and so is the third
	for name, test := range map[string]struct{ begin, again string }{
		"rapid reset":               {"", "GET ID, RST_STREAM ID"},
		"made you reset, by window": {"", "GET ID, WINDOW_UPDATE ID 2147483647"},
		"made you reset, by head":   {"", "GET ID connection=close"},
		"made you reset, by data":   {"", "GET ID, DATA ID"},
		"SETTINGS":                  {"", "SETTINGS 65535"},
		"PING":                      {"", "PING"},
		"PRIORITY":                  {"", "PRIORITY ID"},
		"PING ack":                  {"", "ACK any"},
		"ack of no PING":            {"", "ACK shutdown"},
		"ack of no PING, again":     {"", "ACK is alive"},
		"WINDOW_UPDATE":             {"", "WINDOW_UPDATE 0 1"},
		"WINDOW_UPDATE, large":      {"", "WINDOW_UPDATE 0 1000"},
		"HPACK bomb":                {"", "GET ID" + strings.Repeat(" x="+strings.Repeat("x", 3000), 100)},
		"small CONTINUATION":        {"", "HEADERS ID" + strings.Repeat(", CONTINUATION ID", 50) + ", CONTINUATION ID end"},
		"unknown frames":            {"", "EXTENSION"},
		"PRIORITY_UPDATE":           {"", "PRIORITY_UPDATE"},
		"refused heads":             {"", "GET ID /%zz"},
		"DATA of one byte":          {streams, "DATA 1 x"},
		"DATA of two bytes":         {streams, "DATA 1 xx"},
		"padded DATA":               {streams, "PADDED-DATA 1 x"},
		"empty DATA":                {streams, "DATA 1"},
		"DATA without content":      {streams, "PADDED-DATA 1"},
		"window of stream":          {streams, "WINDOW_UPDATE 1 1"},
		"window of stream, large":   {streams, "WINDOW_UPDATE 1 1024"},
		"DATA of a closed stream":   {streams, "DATA 3 x*16384"},
		"empty DATA of another":     {streams, "DATA 3"},
		"DATA of unserved streams":  {streams, "DATA 5 x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // whose clock stands still, so that the ledger does not grow
				p := openPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 1}, hello)
				pass, times := p.pump, 1
				if test.begin == "" {
					p.session.ledger.Credit(1 << 20) // it is full already
					time.Sleep(time.Second)          // counts once
				} else { // whose handlers would wait for their bodies
					pass, times = p.receive, 100
				}
				p.send(test.begin)
				for id := uint32(1); pass(); id += 2 {
					if id > 10_000 {
						t.Fatal("the session continues")
					}
					p.discard()
					p.sendOn(id, strings.Repeat(test.again+", ", times))
				}
				p.wantLast("GOAWAY ENHANCE_YOUR_CALM")
				testkit.Equal(t, p.ended, true, "the connection is closed")
			})
		})
	}
}

func (p *peer) sendOn(id uint32, frames string) {
	p.send(strings.ReplaceAll(frames, "ID", fmt.Sprint(id)))
}

// A head block without an end is limited in bytes and in frames.
func TestContinuationFloodEndsTheConnection(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "full": 16384} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, nil, hello)
			p.send("HEADERS 1" + strings.Repeat(fmt.Sprint(", CONTINUATION 1 x*", size), 200))
			testkit.Equal(t, p.pump(), false, "the session goes on")
			p.wantRest("GOAWAY ENHANCE_YOUR_CALM")
			testkit.Between(t, p.buffered(), 0, 3<<20, "buffered bytes")
		})
	}
}

// A small block that stands for a large head costs no memory beyond the limit.
func TestHPACKBombIsRefused(t *testing.T) {
	p := openPeer(t, nil, hello)
	value := strings.Repeat("x", 4000)
	p.get(1, "x-bomb", value)
	p.pump()
	p.rest()
	fields := h2test.Head("GET", "/")
	for range 4000 {
		fields = append(fields, "x-bomb", value)
	}
	p.request(3, true, fields...)
	testkit.Equal(t, p.pump(), true, "the session goes on")
	testkit.Equal(t, p.started.Load(), 1, "handlers have begun, but none has the bomb")
	p.wantRest("HEADERS 431, DATA 431 Request Header F end")
	p.exchange("GET 5", "HEADERS 200, DATA hello end") // the decoder's table is right
}

// A client that reads nothing cannot make the server store replies or responses without limit, even
// if none of its frames costs a unit of the ledger.
func TestPeerThatNeverReadsIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		handler     http.HandlerFunc
		begin, send string
	}{
		"PING": {hello, "", "PING"},
		// a handler that does not read leaves a window of ten bytes
		"windows": {func(http.ResponseWriter, *http.Request) {},
			"POST 1" + strings.Repeat(", DATA 1 x*16384", 63) + ", DATA 1 x*16374", "DATA 3 xxxxx"},
		"aborted responses": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", "GET ID"},
		"refused heads":     {hello, "", "GET ID /%zz"},
		"no bodies":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "", "GET ID"},
	} {
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan bool)
			defer close(hang)
			p := openPeer(t, nil, test.handler, func(c *Config) {
				c.Exchanges.OnRefused = func(exchange.Refusal) { <-hang }
			})
			p.accepts = 0
			if test.begin != "" {
				p.send(test.begin)
				testkit.Equal(t, p.received() != nil, true, "a stream is ready")
				p.exchange("POST 3", "")
			}
			for id := uint32(5); ; id += 2 {
				p.sendOn(id, test.send)
				alive := p.receive()
				p.runReady()
				synctest.Wait()
				if n := p.pending(); n > 200<<10 {
					t.Fatalf("%s: %d bytes wait", name, n)
				}
				if !alive {
					break
				}
			}
			testkit.Equal(t, p.session.WaitDeadline().IsZero(), false, name, "the connection stays open")
			testkit.Between(t, p.session.reports.Load(), 0, maxReports, "goroutines of the hook")
			p.accepts = -1
			p.session.Flush()
			p.wantLast("GOAWAY ENHANCE_YOUR_CALM")
		})
	}
}

// Streams above the limit are refused. Handlers that still run although their streams were reset
// count.
func TestStreamsAboveTheLimitAreRefused(t *testing.T) {
	p := openPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 2}, hello)
	p.send("GET 1, GET 3, GET 5")
	running := p.received()
	p.wantRest("RST_STREAM REFUSED_STREAM")
	p.send("RST_STREAM 1, RST_STREAM 3, GET 7, GET 9")
	p.receive()
	testkit.Equal(t, p.session.running, 2, "handlers run or wait")
	running.Run(nil, 0)
	running.Settle()
	p.pump()
	p.get(11)
	p.pump()
	p.wantLast("HEADERS 200, DATA hello end")
}

// Random frames neither panic nor make the session hold much memory.
func FuzzSession(f *testing.F) {
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
		"\x00\x00\x07\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a\x40"))
	f.Add([]byte("\x00\x00\x04\x00\x08\x00\x00\x00\x01\x02ab\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		p := openPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				io.WriteString(w, "hello")
			}
		})
		p.request(1, false, ":method", "POST", ":scheme", "http", ":path", "/")
		p.input.Write(frames)
		p.pump()
		p.input.Write(frames)
		p.pump()
		p.rest()
		testkit.Between(t, p.pending()+p.buffered(), 0, 1<<20, "buffered bytes")
	})
}

// Honest clients may send many frames of the same kinds. They may update their windows after each
// read of a response, also if they read little at a time, and only after all of it has arrived.
func TestHonestClientsAreNoFlood(t *testing.T) {
	for name, test := range map[string]struct {
		begin, again string
		times        int
	}{
		"small messages of gRPC":                    {"", "POST ID" + strings.Repeat(", DATA ID messag", 50_000), 1},
		"upload in small pieces":                    {"", "POST ID" + strings.Repeat(", DATA ID x", 25_000), 1},
		"window of each stream":                     {"", "GET ID, WINDOW_UPDATE ID 12582912", 5000}, // as Firefox
		"padded uploads":                            {"", "POST ID, PADDED-DATA ID x*500 end", 5000},
		"updates of both windows for each response": {"", "GET ID, WINDOW_UPDATE ID 5, WINDOW_UPDATE 0 5", 5000},
		"updates behind a large response": {"SETTINGS 4194304, WINDOW_UPDATE 0 4194304, GET 1 /large",
			strings.Repeat("WINDOW_UPDATE 1 512, WINDOW_UPDATE 0 512, ", 8192), 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Write(make([]byte, map[string]int{"/": 5, "/large": 4 << 20}[r.URL.Path]))
			})
			p.send(test.begin)
			p.pump()
			testkit.Equal(t, p.output.Len() >= 4<<20, test.begin != "", "the large response is sent")
			p.discard()
			for n := range test.times {
				p.sendOn(uint32(2*n+1), test.again)
				if !p.pump() {
					t.Fatalf("after %d requests the server has sent %s", n, p.rest())
				}
				p.discard()
			}
		})
	}
}

// respond makes n streams, from an identifier on, send responses that are larger than the client's
// windows. Each handler has a goroutine, which waits.
func (p *peer) respond(from uint32, n int) {
	for i := range n {
		p.get(from + uint32(2*i))
	}
	p.receive()
	p.runReady()
	synctest.Wait()
}

// A client that opens the windows of many streams by one byte, with one frame, makes all of them
// send a small piece. It pays for each.
func TestFrameThatOpensManyWindowsPaysForEach(t *testing.T) {
	const streams, most = 50, 100 // a frame costs a unit; so many would be no flood
	for name, open := range map[string]string{"SETTINGS": "", "WINDOW_UPDATE": ", WINDOW_UPDATE 0 50"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100_000)) })
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			if name == "SETTINGS" {
				p.send("WINDOW_UPDATE 0 1048576")
			} else { // a stream takes all of the connection's window
				p.send("SETTINGS 65535")
				p.respond(1, 1)
				p.send("SETTINGS 0")
			}
			p.respond(3, streams)
			for round := uint32(1); ; round++ {
				synctest.Wait() // none has yet to send what it was granted
				p.send(fmt.Sprint("SETTINGS ", round, open))
				if !p.receive() {
					break
				}
				if round > most {
					p.session.Closed()
					t.Fatal(name, "the session continues")
				}
			}
			synctest.Wait() // handlers may send, too
			p.session.Flush()
			p.wantLast("GOAWAY ENHANCE_YOUR_CALM")
		})
	}
}

// A client gains nothing from DATA that a stream was granted and has yet to send when it is reset.
func TestResetOfGrantedStreamsIsAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, hello)
		p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for id := uint32(1); !p.ended; id += 2 {
			if id > 10_000 {
				t.Fatal("the session continues")
			}
			p.respond(id, 1)
			p.sendOn(id, "WINDOW_UPDATE ID 1000, RST_STREAM ID")
			p.receive()
		}
		p.wantLast("GOAWAY ENHANCE_YOUR_CALM")
	})
}

// Each field of http.HTTP2Config has an effect, except those of clients and of a dynamic table for
// the fields of responses, which the server does not use.
func TestEveryFieldOfHTTP2ConfigIsRead(t *testing.T) {
	const valid = 1 << 17 // for each integer; also a time
	without := NewConfig(new(exchange.Config), nil, 0)
	for f := range reflect.TypeFor[http.HTTP2Config]().Fields() {
		set := new(http.HTTP2Config)
		v := reflect.ValueOf(set).Elem().FieldByIndex(f.Index)
		switch {
		case f.Name == "MaxDecoderHeaderTableSize":
			v.SetInt(1)
		case v.CanInt():
			v.SetInt(valid)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		default:
			v.Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { return nil }))
		}
		want := f.Name != "StrictMaxConcurrentRequests" && f.Name != "MaxEncoderHeaderTableSize"
		testkit.Equal(t, !reflect.DeepEqual(NewConfig(new(exchange.Config), set, 0), without), want, f.Name, "is read")
	}
}
