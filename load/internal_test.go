package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load/hist"
)

func TestRequestsHaveExpectedBytes(t *testing.T) {
	const url = "http://127.0.0.1:80/a?b"
	for _, test := range []struct {
		plan Plan
		want string
	}{
		{Plan{URL: url}, "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"},
		{Plan{URL: "http://127.0.0.1#top"}, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
		{Plan{URL: "http://[::1]:80/"}, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"},
		{Plan{URL: url, Header: []string{"host: \ta", "X:b\t", "X: c"}},
			"GET /a?b HTTP/1.1\r\nhost: a\r\nX: b\r\nX: c\r\n\r\n"},
		{Plan{URL: url, Method: "POST", Body: "hello"},
			"POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 5\r\n\r\nhello"},
		{Plan{URL: url, Method: "POST"}, "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 0\r\n\r\n"},
		{Plan{URL: url, Method: "DELETE"}, "DELETE /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"},
		{
			Plan{URL: url, Method: "PUT", Header: []string{"Transfer-Encoding: chunked"}, Body: "0\r\n\r\n"},
			"PUT /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		},
		{
			Plan{URL: url, Method: "PUT", Header: []string{"content-length: 1"}, Body: "a"},
			"PUT /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\ncontent-length: 1\r\n\r\na",
		},
	} {
		j, err := test.plan.prepare(context.Background())
		if err != nil {
			t.Errorf("%+v: %v", test.plan, err)
		} else if got := newMessage(j, 0); string(got.text) != test.want {
			t.Errorf(" got %q\nwant %q", got.text, test.want)
		}
	}
}

// payload returns the bytes that a job sends, if they are fixed.
func payload(j *job) string {
	m := newMessage(j, 0)
	return string(m.text)
}

func TestPlanHasDefaults(t *testing.T) {
	p := Plan{}.withDefaults()
	if p.Method != "GET" || p.Connections != 10 || p.Duration != 10*time.Second || p.Timeout != 5*time.Second ||
		p.Warmup != 0 ||
		p.Threads != min(runtime.NumCPU(), 10) || p.Trace == nil {
		t.Errorf("%+v", p)
	}
	testkit.Equal(t, (Plan{Connections: 1}).withDefaults().Threads, 1, "threads for one connection")
	set := Plan{Method: "PUT", Connections: 3, Threads: 2, Warmup: 1, Duration: 2, Timeout: 3, Pipeline: 1,
		Trace: p.Trace}
	testkit.Equal(t, set.withDefaults(), set)
}

// What was measured after a run's last second is added to that second.
func TestTimelineKeepsWhatFollowsTheLastSecond(t *testing.T) {
	one, two := Second{Requests: 1, Bytes: 2, Errors: 3}, Second{Requests: 2, Bytes: 4, Errors: 6}
	both := Second{Requests: 3, Bytes: 6, Errors: 9}
	for _, test := range []struct {
		took       time.Duration
		have, want []Second
	}{
		{50 * time.Millisecond, []Second{one}, []Second{one}},
		{500 * time.Millisecond, []Second{one, two}, []Second{both}},
		{time.Second, []Second{one}, []Second{one}},
		{time.Second, []Second{one, two}, []Second{both}},
		{1050 * time.Millisecond, []Second{one, two}, []Second{both}},
		{1050 * time.Millisecond, []Second{two, one}, []Second{both}},
		{1200 * time.Millisecond, []Second{one, two}, []Second{one, two}},
		{1200 * time.Millisecond, []Second{one, {}, two}, []Second{one, two}},
		{2 * time.Second, []Second{one}, []Second{one}},
		{2050 * time.Millisecond, []Second{one, one, two}, []Second{one, both}},
	} {
		for _, workers := range []int{1, 2} { // of two, the second one reports nothing
			var reported []Second
			s := newTimeline(workers, func(s Second) { reported = append(reported, s) })
			for i, second := range test.have {
				h := hist.New()
				h.RecordN(time.Duration(second.Requests)*time.Millisecond, int64(second.Requests))
				second.Index = i
				s.add(&unpackedSecond{second, h, 1})
			}
			got := s.finish(test.took)
			for i := range got {
				testkit.Equal(t, got[i].Latency.Count, int64(got[i].Requests), "latencies of second", i)
				testkit.Equal(t, got[i].Index, i, "index")
				got[i].Latency, got[i].Index = hist.Packed{}, 0
			}
			if !reflect.DeepEqual(got, test.want) || (len(reported) > 0) != (workers == 1) {
				t.Errorf("%vs of %v became %v, want %v; %d were reported", test.took, test.have, got, test.want,
					len(reported))
			}
		}
	}
}

// Workers' counters are summed; Busy is that of the busiest one.
func TestResultSumsWorkers(t *testing.T) {
	tallies := []tally{newTally(), newTally()}
	for i, t := range tallies {
		n := uint64(i + 1)
		t.Requests, t.Bytes, t.BodyBytes, t.SentBytes, t.Connects, t.Opened, t.Due = n, 10*n, 5*n, 7*n, 2*n, 3*n, 1.5
		t.Generator.UserSeconds, t.Generator.SysSeconds = float64(n), 0.5
		t.Errors = Errors{Connect: n, Read: 2 * n, Write: 3 * n, Timeout: 4 * n, Status: 5 * n, Body: 6 * n,
			Header: 7 * n}
		t.Statuses[200] = n
		t.Latency.Record(time.Duration(n) * time.Second)
		tallies[i] = t
	}
	tallies[1].Statuses[503], tallies[1].Errors.First, tallies[0].Head = 1, "second", "HTTP/1.1 200 OK"
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		r := Result{Seconds: 2, Statuses: make(map[int]uint64)}
		for _, i := range order {
			r.join(tallies[i].result(2))
		}
		latency := r.Latency
		r.Latency, r.Service, r.FirstByte, r.Connect, r.Waiting, r.Windows = nil, nil, nil, nil, nil, nil
		want := Result{
			Seconds: 2, Requests: 3, Due: 3, Bytes: 30, BodyBytes: 15, SentBytes: 21, Connects: 6, Opened: 9,
			Statuses: map[int]uint64{200: 3, 503: 1},
			Errors: Errors{Connect: 3, Read: 6, Write: 9, Timeout: 12, Status: 15, Body: 18, Header: 21,
				First: "second"},
			Generator: Generator{UserSeconds: 3, SysSeconds: 1, Busy: 1.25}, Head: "HTTP/1.1 200 OK",
		}
		if !reflect.DeepEqual(r, want) || latency.Count() != 2 || latency.Max() != 2*time.Second {
			t.Errorf("\n got %+v\nwant %+v", r, want)
		}
		testkit.Equal(t, r.Errors.Total(), 84, "errors")
		testkit.Equal(t, r.PerSecond(), 1.5, "rate")
	}
	testkit.Equal(t, new(Result).PerSecond(), 0, "the rate of nothing")
}

// A name may have an address on which nothing listens.
func TestFirstReachableAddressIsUsed(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	there := l.Addr().(*net.TCPAddr).AddrPort()
	nobody := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), there.Port())
	nobodyElse := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.3"), there.Port())
	for _, test := range []struct {
		all  []netip.AddrPort
		want netip.AddrPort
	}{
		{[]netip.AddrPort{nobody, there}, there},
		{[]netip.AddrPort{there, nobody}, there},
		{[]netip.AddrPort{nobody, nobodyElse}, nobody},
		{[]netip.AddrPort{nobody}, nobody},
	} {
		testkit.Equal(t, firstReachable(context.Background(), test.all, time.Second), test.want, test.all)
	}
}

// A worker opens a limited number of connections at a time. After the first of them time out, it
// does not wait for the others, and retrying does not overflow the backlog either.
func TestConnectsAreLimitedAndAbandonedAfterTimeouts(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	const conns = 2*maxBacklog + 50
	j := testkit.Value(Plan{URL: "http://" + l.Addr().String(), Connections: conns}.prepare(context.Background()))(t)
	r := newRun(j)
	w := testkit.Value(newWorker(r, 0, 0, conns))(t)
	defer w.close()
	for range 2 {
		w.openConns()
		if w.backlog != maxBacklog || w.nextUnopened != maxBacklog || r.pendingConns.Load() != conns {
			t.Fatalf("%d of %d are connecting, %d pending", w.backlog, w.nextUnopened, r.pendingConns.Load())
		}
	}
	w.now = 2 * int64(w.plan.Timeout) // and no event was looked at
	w.sweep()
	testkit.Equal(t, w.backlog, 0, "connecting after a timeout")
	testkit.Equal(t, r.pendingConns.Load(), 0, "pending after a timeout")
	for range 2 {
		w.sweep()
		testkit.Equal(t, w.backlog, maxBacklog, "connecting after a sweep")
	}
	w.now *= 3
	w.sweep()
	testkit.Equal(t, r.pendingConns.Load(), 0, "pending: later attempts do not count")
}

// Lines of events may end with CR, LF or both. A block without an end, or with comments only, is no
// event.
func TestEventStreamCountsBlocks(t *testing.T) {
	for in, want := range map[string]string{
		"": "0", "\n\n\n": "0", ": ping\n\n": "0", "data: a\n": "0", "data: a": "0",
		"data: a\n\n": "1", "data: a\r\n\r\n": "1", "data: a\r\r": "1", "data: a\n\r": "1", "data: a\r\n\n": "1",
		"data: a\n\n\n\n": "1", "\n: c\ndata: a\nid: 1\n\n": "1", "data: a\n\n: c\n\ndata\n\ndata: b\n": "2",
	} {
		got := testkit.EverySplit(t, []byte(in), func(pieces [][]byte) string {
			counts := newTally()
			counts.counting = true
			s := eventStream{tally: &counts}
			for _, piece := range pieces {
				s.data(piece)
			}
			return fmt.Sprint(counts.Events)
		})
		testkit.Equal(t, got, want, in)
	}
}

// Record encodes a FastCGI record by hand, because the reader would share the defects of tare's
// writer.
func Record(typ byte, id uint16, content string, padding int) string {
	n := len(content)
	header := []byte{1, typ, byte(id >> 8), byte(id), byte(n >> 8), byte(n), byte(padding), 0xee}
	return string(header) + content + strings.Repeat("\xff", padding)
}

// Stdout returns a STDOUT record.
func Stdout(content string) string { return Record(6, 1, content, 0) }

// Stderr returns a STDERR record.
func Stderr(content string) string { return Record(7, 1, content, 0) }

// End returns an END_REQUEST record with an application status and a protocol status.
func End(app, status byte) string {
	return Record(3, 1, string([]byte{0, 0, 0, app, status, 0, 0, 0}), 0)
}
