package load

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	http2x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http2"
)

// describe passes pieces of input to a reader and returns everything that it reports.
func describe(p protocol, isHead bool) func(pieces [][]byte) string {
	return func(pieces [][]byte) string {
		t := tally{counting: true}
		r := p.newReader(&readerShared{tally: &t})
		a := response{isHead: isHead}
		consumed := 0
		for i, piece := range pieces {
			n, err := r.consume(piece, &a)
			consumed += n
			if err != nil {
				r.reset()
				return fmt.Sprintf("%v %+v", err, t.FastCGI)
			}
			if a.stage == complete {
				rest := len(bytes.Join(pieces, nil)) - consumed
				return fmt.Sprintf("status %d, last %t, %d bytes left %+v", a.status, a.last, rest, t.FastCGI)
			}
			if n != len(piece) {
				return fmt.Sprintf("BUG: %d of %d bytes consumed of piece %d", n, len(piece), i)
			}
		}
		untilClose := r.untilClose()
		r.reset()
		return fmt.Sprintf("got %d, status %d, until close %t %+v", a.stage, a.status, untilClose, t.FastCGI)
	}
}

// A response may arrive in any pieces, and its head in any number of records.
func TestFastCGIReaderParsesEverySplit(t *testing.T) {
	const head = "Content-Type: text/plain\r\n\r\n"
	none := Record(6, 1, "", 0)
	text := "status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"
	for _, test := range []struct{ name, in, want string }{
		{"one record", Stdout(head+"hello") + none + End(0, 0), text},
		{"no end of STDOUT", Stdout(head+"hello") + End(0, 0), text},
		{"no body", Stdout(head) + none + End(0, 0), text},
		{"empty lines", Stdout("\n") + End(0, 0), text},
		{"head over records", Stdout("Content-Type: te") + Stdout("xt/plain\r\nA: b\r") + Stdout("\n\r\nhel") +
			Stdout("lo") + none + End(0, 0), text},
		{"padding", Record(6, 1, head, 3) + Record(6, 1, "hello", 255) + Record(6, 1, "", 8) + Record(3, 1,
			strings.Repeat("\x00", 8), 9), text},
		{"length", Stdout("Content-Length: 5\n\nhel") + Stdout("lo") + none + End(0, 0), text},
		{"status", Stdout("Status: 404 Not Found\r\n\r\n") + none + End(0, 0), strings.Replace(text, "200", "404", 1)},
		{"redirect", Stdout("Location: /a\r\n\r\n") + none + End(0, 0), strings.Replace(text, "200", "302", 1)},
		{"no content, with a length", Stdout("Status: 304\r\nContent-Length: 5\r\n\r\n") + End(0, 0),
			strings.Replace(text, "200", "304", 1)},
		{"STDERR", Stderr("a") + Stdout(head) + Record(7, 1, "bc", 5) + Record(7, 1, "", 0) + End(0, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:3 Stderr:abc}"},
		{"long STDERR", Stderr(strings.Repeat("e", 700)) + Stdout(head) + End(0, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:0 StderrBytes:700 Stderr:" + strings.Repeat("e",
				512) + "}"},
		{"exit code", Stdout(head) + End(7, 0),
			"status 200, last false, 0 bytes left &{Resent:0 Exits:1 StderrBytes:0 Stderr:}"},
		{"more than the response", Stdout(head) + End(0, 0) + "\x01", strings.Replace(text, "0 bytes", "1 bytes", 1)},

		{"unfinished", Stdout(head) + none, "got 2, status 200, until close false &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"},
		{"unfinished padding", Stdout(head) + Record(3, 1, strings.Repeat("\x00", 8), 2)[:17],
			"got 2, status 200, until close false &{Resent:0 Exits:0 StderrBytes:0 Stderr:}"},
		{"only STDERR", Stderr("oh"), "got 1, status 0, until close false &{Resent:0 Exits:0 StderrBytes:2 Stderr:oh}"},

		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "fcgi: unsupported FastCGI version"},
		{"other request", Stdout(head) + Record(6, 2, "a", 0), "record for request ID 2, want 1"},
		{"other request's end", Record(3, 513, strings.Repeat("\x00", 8), 0), "record for request ID 513,"},
		{"management", Record(11, 0, "\x63\x00\x00\x00\x00\x00\x00\x00", 0), "record for request ID 0,"},
		{"PARAMS", Record(4, 1, "a", 0), "record of unexpected type 4"},
		{"unknown type", Record(12, 1, "", 0), "record of unexpected type 12"},
		{"type 0", Record(0, 1, "", 0), "fcgi: invalid record type 0"},
		{"STDOUT after its end", Stdout(head) + none + Stdout("a"), "STDOUT continues after its end"},
		{"STDOUT ends twice", Stdout(head) + none + none, "STDOUT continues after its end"},
		{"no head", Stderr("oh") + none + End(1, 0),
			"the application ended the request before a complete response head &{Resent:0 Exits:0 StderrBytes:2 Stderr:oh}"},
		{"half a head", Stdout("A: b\r\n") + End(0, 0), "before a complete response head"},
		{"bad head", Stdout("A b\r\n\r\n") + End(0, 0), "http1: space in field name"},
		{"bad status", Stdout("Status: 20\r\n\r\n") + End(0, 0), "http1: malformed Status"},
		{"large head", Stdout("A: "+strings.Repeat("a", 40_000)) + Stdout(strings.Repeat("a", 40_000)),
			"section too large"},
		{"many fields", Stdout(strings.Repeat("A: b\n", maxFields+1)), "too many field lines"},
		{"short body", Stdout("Content-Length: 5\r\n\r\nhell") + none + End(0, 0),
			"body of 4 bytes, but Content-Length is 5"},
		{"long body", Stdout("Content-Length: 5\r\n\r\nhello") + Stdout("!") + none + End(0, 0),
			"body of 6 bytes, but Content-Length is 5"},
		{"cannot multiplex", End(0, 1), "the application refused the request: cannot multiplex (protocol status 1)"},
		{"overloaded", End(0, 2), "the application refused the request: overloaded (protocol status 2)"},
		{"overloaded after all", Stdout(head) + End(0, 2), "the application refused the request: overloaded"},
		{"unknown role", End(0, 3), "the application refused the request: unknown role (protocol status 3)"},
		{"unknown status", End(0, 9), "the application refused the request: unknown status (protocol status 9)"},
		{"short END_REQUEST", Record(3, 1, "\x00\x00\x00\x00", 0), "END_REQUEST content is not 8 bytes long"},
		{"long END_REQUEST", Record(3, 1, strings.Repeat("\x00", 5000), 0), "fcgi: message too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, how := []byte(test.in), describe(fcgiProtocol{}, false)
			got := how([][]byte{in})
			if len(in) < 10_000 { // a head that comes byte by byte is parsed as often
				got = testkit.EverySplit(t, in, how)
			}
			testkit.Contains(t, got, test.want)
		})
	}
	got := testkit.EverySplit(t, []byte(Stdout("Content-Length: 5\r\n\r\n")+End(0, 0)), describe(fcgiProtocol{}, true))
	testkit.Equal(t, got, text, "HEAD")
}

// The same holds for HTTP's reader.
func TestHTTPReaderParsesEverySplit(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":    "status 200, last false, 0 bytes left",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!":   "status 200, last false, 1 bytes left",
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n": "status 204, last true, 0 bytes left",

		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n":    "status 404, last false, 0 bytes left",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n":                                                       "got 0,",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nSum: 1\r\n\r\nHTTP/1.1 ": "status 200, last false, 9 bytes left",

		"HTTP/1.0 200 OK\r\n\r\nall there is":                            "got 2, status 200, until close true",
		"HTTP/1.1 200 OK\r\nContent-Le":                                  "got 1,",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                       errSwitched.Error(),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd": "chunk data not followed by CRLF",
	} {
		if got := testkit.EverySplit(t, []byte(in),
			describe(httpProtocol{1}, false)); !strings.HasPrefix(strings.TrimPrefix(got, "http1: "), want) {
			t.Errorf("%q:\n got %s\nwant %s", in, got, want)
		}
	}
}

// fcgiWorker returns a worker for a FastCGI plan, connected to a listener.
func fcgiWorker(t *testing.T, p Plan, conns int) *worker {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	p.URL, p.Threads = "fcgi://"+l.Addr().String(), 1
	j := testkit.Value(p.prepare(context.Background()))(t)
	w := testkit.Value(newWorker(newRun(j), 0, 0, conns))(t)
	t.Cleanup(w.close)
	return w
}

// A request whose connection closed before the response keeps its due time.
func TestUnsentResponseKeepsItsDueTime(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 3, Spare: 1, Pace: Constant(1000)}, 3)
	w.pacer.began, w.now = 1, 1e9
	c := &w.conns[2]
	first, ok := w.isDue(2)
	second, okToo := w.isDue(2)
	if !ok || !okToo || second != first+1e6 {
		t.Fatalf("due: %t and %t, since %d and %d", ok, okToo, first, second)
	}
	c.reusable.exchanges[0], c.inFlight, c.responses = exchange{due: first, active: true}, 1, 2
	w.retryOnNewConn(2)
	if again, ok := w.isDue(4); !ok || again != first || c.state != opening {
		t.Errorf("due: %t, since %d and then %d; the connection is %s", ok, first, again, c.activity())
	}
	if third, ok := w.isDue(4); !ok || third != second+1e6 {
		t.Errorf("due: %t, since %d; want what follows %d", ok, third, second)
	}
}

// A worker closes connections itself only after the server did so several times in a row.
func TestWorkerClosesConnectionsOnlyAfterRepeatedCloses(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	c := &w.conns[0]
	for _, test := range []struct{ responses, want int }{{1, 1}, {5, 0}, {1, 1}, {2, 0}, {1, 1}, {1, 2}} {
		for range test.responses {
			c.response.status, c.response.slot, c.inFlight = 200, 0, 1
			c.reusable.exchanges[0].message = &w.messages[0]
			w.completeExchange(0, &c.reusable.exchanges[0])
		}
		w.retryOnNewConn(0)
		testkit.Equal(t, int(c.reusable.singleUses), test.want, "in a row after", test.responses, "responses")
		testkit.Equal(t, c.responses, 0, "responses")
	}
}

// A connection that failed is reopened without a pause. Only if several in a row end soon and
// without a response, the next sweep reopens it.
func TestFailedConnectionsAreReopenedAtOnce(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	c := &w.conns[0]
	end := map[string]func(){
		"fails":     func() { w.failConn(0, FailedRead, "x") },
		"times out": func() { w.timeOut(0) },
		"refused":   func() { w.cannotConnect(0, FailedConnect, "x") },
		"closes":    func() { w.reconnect(0) },
	}
	for name, close := range end {
		c.reusable.fruitless = 0
		for i, test := range []struct {
			responses int
			lived     time.Duration
			want      connState
		}{
			{1, 0, opening}, {0, 0, opening}, {0, 0, opening}, {0, 0, closed}, {0, 0, closed},
			{0, time.Second, opening}, {0, 0, closed}, {1, 0, opening}, {0, 0, opening},
		} {
			w.openConns()
			w.sweep()
			w.now = c.connectStart + int64(test.lived)
			c.responses = test.responses
			close()
			w.openConns()
			testkit.Equal(t, c.state, test.want, name, i)
		}
	}
}

// A response that arrives before the whole request was sent ends the sending.
func TestEarlyResponseEndsSending(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	w.openConns()
	for events := []poll.Event(nil); len(events) == 0; {
		var err error
		if events, err = w.poller.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	c := &w.conns[0]
	for got, want := range map[stage]int{beforeHead: 0, inHead: 0, inBody: 1} {
		c.state, c.out, c.response.stage = open, []byte("x"), got
		w.handleEvent(&poll.Event{Writable: true})
		testkit.Equal(t, c.unsent(), want, "unsent at stage", got)
	}
}

// Due is the number of requests that the schedule drew within the duration, even if the worker
// notices the end late. Those that the generator sent late do not count.
func TestDueIsTheNumberDrawnWithinTheDuration(t *testing.T) {
	for _, pace := range []Pace{Constant(50), {Steps: Constant(50).Steps, Poisson: true, Seed: 3}} {
		drawn := newSchedule(&pace, 1, 0, 1)
		want := 0
		for ; drawn.due < int64(2*time.Second); drawn.advance() {
			want++
		}
		w := fcgiWorker(t, Plan{Connections: 1, Duration: 2 * time.Second, Pace: pace}, 1)
		w.beginCounting()
		w.pacer.began = w.began
		for range 10 {
			w.pacer.pop(w.began + int64(time.Second))
		}
		w.queueIdle(0)
		w.clock = w.clock.Add(-time.Minute)
		w.endCounting()
		testkit.Equal(t, w.tally.Due, float64(want-1), "due", pace)
		testkit.Equal(t, w.tally.Waiting.Count(), int64(want-1-10), "waiting: one was sent late", pace)
	}
}

// A run counts as many errors as MaxErrors, however many arrive before all workers have ended.
func TestErrorsBeyondMaxErrorsDoNotCount(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1, MaxErrors: 3}, 1)
	w.run.setPhase(measuring)
	w.beginCounting()
	for range 5 {
		c := &w.conns[0]
		c.response.status, c.response.slot, c.inFlight = 500, 0, 1
		c.reusable.exchanges[0].message = &w.messages[0]
		w.completeExchange(0, &c.reusable.exchanges[0])
		w.recordError(FailedRead, "x")
	}
	if e := w.tally.Errors; e.Total() != 3 || w.tally.Requests != e.Status || phase(w.run.phase.Load()) != stopping {
		t.Errorf("%d requests, errors %+v, phase %d", w.tally.Requests, e, w.run.phase.Load())
	}
}

// The unsent rest of a body is not sent on the next connection.
func TestHTTP2ReaderDropsUnsentBodyOnReset(t *testing.T) {
	q := &request{url: parsedURL{host: "a", target: "/"}, method: "POST",
		body: strings.Repeat("b", 2*http2.InitialWindow)}
	text := http2Protocol{}.render(nil, q, address{}, false)
	r := http2Protocol{}.newReader(&readerShared{tally: new(tally), expected: new(expectation),
		maxInFlight: 2}).(*http2Reader)
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
	r := http2Protocol{}.newReader(&readerShared{tally: new(tally), expected: new(expectation), maxInFlight: 1})
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
		{"CONTINUATION alone", "CONTINUATION without HEADERS", func() { f.WriteContinuation(1, true, nil) }},
		{"CONTINUATION of another", "without CONTINUATION", func() {
			headers(1, true, false, nil)
			f.WriteContinuation(3, true, nil)
		}},
		{"DATA in a block", "without CONTINUATION", func() { headers(1, true, false, nil); f.WriteData(1, true, nil) }},
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
			testkit.Contains(t, testkit.EverySplit(t, frames.Bytes(), describeHTTP2), test.want)
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
