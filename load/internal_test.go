package load

import (
	"context"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/tarehq/tare/load/hist"
)

func TestRequestBytes(t *testing.T) {
	const url = "http://127.0.0.1:80/a?b"
	for _, test := range []struct {
		plan Plan
		want string
	}{
		{Plan{URL: url}, "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"},
		{Plan{URL: "http://127.0.0.1#top"}, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
		{Plan{URL: "http://[::1]:80/"}, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"},
		{Plan{URL: url, Header: []string{"host: \ta", "X:b\t", "X: c"}}, "GET /a?b HTTP/1.1\r\nhost: a\r\nX: b\r\nX: c\r\n\r\n"},
		{Plan{URL: url, Method: "POST", Body: "hello"}, "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 5\r\n\r\nhello"},
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
		} else if string(j.payload) != test.want {
			t.Errorf(" got %q\nwant %q", j.payload, test.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	p := Plan{}.withDefaults()
	if p.Method != "GET" || p.Connections != 10 || p.Duration != 10*time.Second || p.Timeout != 5*time.Second || p.Warmup != 0 ||
		p.Threads != min(runtime.NumCPU(), 10) || p.Trace == nil {
		t.Errorf("%+v", p)
	}
	if one := (Plan{Connections: 1}).withDefaults(); one.Threads != 1 {
		t.Errorf("%d threads for one connection", one.Threads)
	}
	set := Plan{Method: "PUT", Connections: 3, Threads: 2, Warmup: 1, Duration: 2, Timeout: 3, Trace: p.Trace}
	if got := set.withDefaults(); !reflect.DeepEqual(got, set) {
		t.Errorf("%+v became %+v", set, got)
	}
}

func TestCheck(t *testing.T) {
	ok := Plan{Connections: 1, Threads: 1, CPUs: []int{0}}
	if err := ok.check(); err != nil {
		t.Error(err)
	}
	for i, spoil := range []func(*Plan){
		func(p *Plan) { p.Connections = 0 }, func(p *Plan) { p.Threads = 0 }, func(p *Plan) { p.Threads = 2 },
		func(p *Plan) { p.Warmup = -1 }, func(p *Plan) { p.Duration = -1 }, func(p *Plan) { p.Timeout = -1 },
		func(p *Plan) { p.CPUs = []int{0, -1} },
	} {
		bad := ok
		spoil(&bad)
		if bad.check() == nil {
			t.Errorf("%d: %+v accepted", i, bad)
		}
	}
}

func TestFoldTail(t *testing.T) {
	one := Second{Requests: 1, Bytes: 2, Errors: 3}
	two := Second{Requests: 2, Bytes: 4, Errors: 6}
	both := Second{Requests: 3, Bytes: 6, Errors: 9}
	for _, test := range []struct {
		seconds    float64
		have, want []Second
	}{
		{0.05, []Second{one}, []Second{one}},
		{0.5, []Second{one, two}, []Second{both}},
		{1, []Second{one}, []Second{one}},
		{1, []Second{one, two}, []Second{both}},
		{1.05, []Second{one, two}, []Second{both}},
		{1.05, []Second{two, one}, []Second{both}},
		{1.2, []Second{one, two}, []Second{one, two}},
		{1.2, []Second{one, {}, two}, []Second{one, two}},
		{2, []Second{one}, []Second{one}},
		{2.05, []Second{one, one, two}, []Second{one, both}},
	} {
		r := Result{Seconds: test.seconds, Timeline: append([]Second(nil), test.have...)}
		if r.foldTail(); !reflect.DeepEqual(r.Timeline, test.want) {
			t.Errorf("%vs of %v became %v, want %v", test.seconds, test.have, r.Timeline, test.want)
		}
	}
}

// What the workers counted is added up, but for the busiest one's share.
func TestResultOfSeveralWorkers(t *testing.T) {
	tallies := []tally{
		{requests: 1, bytes: 10, connects: 2, opened: 3, user: 1 * time.Second, sys: 500 * time.Millisecond, latency: hist.New(), service: hist.New(), firstByte: hist.New(), unanswered: 1, asked: 1.5,
			errors: Errors{Connect: 1, Read: 2, Write: 3, Timeout: 4, Status: 5}, timeline: []Second{{Requests: 1}}},
		{requests: 4, bytes: 20, connects: 5, opened: 6, user: 200 * time.Millisecond, sys: 100 * time.Millisecond, latency: hist.New(), service: hist.New(), firstByte: hist.New(), unanswered: 1, asked: 1.5,
			errors: Errors{Connect: 6, Read: 7, Write: 8, Timeout: 9, Status: 10, First: "second"}, timeline: []Second{{Requests: 3}, {Requests: 1}}},
	}
	tallies[0].statuses[200], tallies[1].statuses[200], tallies[1].statuses[503] = 1, 3, 1
	tallies[0].latency.Record(time.Second)
	tallies[1].latency.Record(2 * time.Second)
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		r := Result{Seconds: 2, Statuses: make(map[int]uint64), Latency: hist.New(), Service: hist.New(), FirstByte: hist.New()}
		for _, i := range order {
			r.add(&tallies[i])
		}
		latency := r.Latency
		r.Latency, r.Service, r.FirstByte = nil, nil, nil
		want := Result{
			Seconds: 2, Requests: 5, Unanswered: 2, Asked: 3, Bytes: 30, Connects: 7, Opened: 9, Statuses: map[int]uint64{200: 4, 503: 1},
			Errors:   Errors{Connect: 7, Read: 9, Write: 11, Timeout: 13, Status: 15, First: "second"},
			Timeline: []Second{{Requests: 4}, {Requests: 1}}, Generator: Generator{UserSeconds: 1.2, SysSeconds: 0.6, Busy: 0.75},
		}
		if !reflect.DeepEqual(r, want) || latency.Count() != 2 || latency.Max() != 2*time.Second {
			t.Errorf("\n got %+v\nwant %+v", r, want)
		}
		if r.Errors.Total() != 55 || r.PerSecond() != 2.5 || r.PerCPUSecond() < 2.77 || r.PerCPUSecond() > 2.78 {
			t.Errorf("%d errors, %v/s, %v per CPU second", r.Errors.Total(), r.PerSecond(), r.PerCPUSecond())
		}
	}
	if none := (&Result{}); none.PerSecond() != 0 || none.PerCPUSecond() != 0 {
		t.Error("rates of nothing")
	}
}

// A name may have an address that nobody listens on.
func TestFirstAddressToAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		if got := firstToAnswer(context.Background(), test.all, time.Second); got != test.want {
			t.Errorf("%v of %v, want %v", got, test.all, test.want)
		}
	}
}

// A worker opens some connections at a time. When the first of them time out, the
// others are not waited for, and trying again overflows no backlog either.
func TestNoMoreThanSomeAtATime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const conns = 2*maxConnecting + 50
	j, err := Plan{URL: "http://" + l.Addr().String(), Connections: conns}.prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := &run{job: j}
	r.pending.Store(conns)
	w, err := newWorker(r, 0, conns)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for range 2 {
		w.open()
		if w.connecting != maxConnecting || w.unopened != maxConnecting || r.pending.Load() != conns {
			t.Fatalf("%d of %d are connecting, %d pending", w.connecting, w.unopened, r.pending.Load())
		}
	}
	w.now = int64(w.Timeout) + 1 // and no event was looked at
	w.sweep()
	if w.connecting != 0 || r.pending.Load() != 0 {
		t.Errorf("%d are connecting after a timeout, %d pending", w.connecting, r.pending.Load())
	}
	for range 2 {
		w.sweep()
		if w.connecting != maxConnecting {
			t.Errorf("%d are connecting after a sweep", w.connecting)
		}
	}
	w.now *= 3
	if w.sweep(); r.pending.Load() != 0 {
		t.Errorf("later attempts count as first ones: %d pending", r.pending.Load())
	}
}
