package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// spell formats a FastCGI request: its parameters by name, one per line, and its body.
func spell(t *testing.T, request string) string {
	t.Helper()
	params, body, _, err := testkit.ReadFastCGI(strings.NewReader(request))
	testkit.Must(t, err)
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(&s, "%s=%s\n", name, params[name])
	}
	return s.String() + string(body)
}

func TestFastCGIRequestsHaveExpectedRecords(t *testing.T) {
	for _, test := range []struct {
		plan Plan
		want []string
	}{
		{Plan{URL: "fcgi://127.0.0.1:9001/a%20b/?x=1&y"}, []string{`CONTENT_LENGTH=
CONTENT_TYPE=
DOCUMENT_ROOT=/var/www/html
DOCUMENT_URI=/a b/
GATEWAY_INTERFACE=CGI/1.1
HTTP_HOST=127.0.0.1:9001
HTTP_USER_AGENT=tare
QUERY_STRING=x=1&y
REDIRECT_STATUS=200
REMOTE_ADDR=127.0.0.1
REMOTE_PORT=49152
REQUEST_METHOD=GET
REQUEST_SCHEME=http
REQUEST_URI=/a%20b/?x=1&y
SCRIPT_FILENAME=/var/www/html/a b/
SCRIPT_NAME=/a b/
SERVER_ADDR=127.0.0.1
SERVER_NAME=127.0.0.1
SERVER_PORT=9001
SERVER_PROTOCOL=HTTP/1.1
SERVER_SOFTWARE=tare
`}},
		{Plan{URL: "fcgi+unix:///run/a.sock", Method: "POST"}, []string{
			"CONTENT_LENGTH=0\n", "SCRIPT_NAME=/\n", "REQUEST_URI=/\n", "DOCUMENT_URI=/\n", "REMOTE_ADDR=127.0.0.1\n",
			"SERVER_ADDR=127.0.0.1\nSERVER_NAME=localhost\nSERVER_PORT=80\n", "HTTP_HOST=localhost\n",
		}},
		{Plan{URL: "fcgi://[::1]/", Header: []string{"host: h", "User-Agent: u", "Content-Type: t", "content-length: 9",
			"X-A: 1", "x-a:2", "Cookie: a=1", "Cookie: b=2"}}, []string{
			"CONTENT_LENGTH=9\nCONTENT_TYPE=t\n", "SERVER_ADDR=::1\nSERVER_NAME=::1\nSERVER_PORT=9000\n",
			"HTTP_COOKIE=a=1; b=2\nHTTP_HOST=h\nHTTP_USER_AGENT=u\nHTTP_X_A=1, 2\n",
		}},
		{Plan{URL: "fcgi://127.0.0.1/i.php",
			Params: []string{"DOCUMENT_ROOT=/srv", "PATH_INFO=/a=b", "HTTPS=on", "HTTPS=off", "REMOTE_PORT="}},
			[]string{"DOCUMENT_ROOT=/srv\n", "SCRIPT_FILENAME=/srv/i.php\n", "REMOTE_PORT=\n", "\nPATH_INFO=/a=b\n",
				"\nHTTPS=off\n"}},
		{Plan{URL: "fcgi://127.0.0.1/", Params: []string{"SCRIPT_FILENAME=/a.php"}},
			[]string{"DOCUMENT_ROOT=/var/www/html\n", "SCRIPT_FILENAME=/a.php\n"}},
		{Plan{URL: "fcgi://127.0.0.1/", Method: "PUT", Body: "hello"}, []string{"CONTENT_LENGTH=5\n", "tare\nhello"}},
		{Plan{URL: "fcgi://127.0.0.1/", Body: strings.Repeat("b", 65_535+2)},
			[]string{"CONTENT_LENGTH=65537\n", "tare\n" + strings.Repeat("b", 65_535+2)}},
		{Plan{URL: "fcgi://127.0.0.1/", Header: []string{"X: " + strings.Repeat("x", 70_000)}},
			[]string{"HTTP_X=" + strings.Repeat("x", 70_000) + "\n"}},
	} {
		got := spell(t, payload(testkit.Value(test.plan.prepare(context.Background()))(t)))
		testkit.Lacks(t, got, "(twice)", test.plan)
		for _, want := range test.want {
			testkit.Contains(t, got, want)
		}
	}
}

func TestURLsAreParsed(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/":                        `"" http://h:80 Host h / "/" ""`,
		"HTTP://h:81?a":                    `"" http://h:81 Host h:81 /?a "/" "a"`,
		"fcgi://h/a%2fb":                   `"" fcgi://h:9000 Host h /a%2fb "/a/b" ""`,
		"fcgi://[::1]:9001":                `"" fcgi://::1:9001 Host [::1]:9001 / "/" ""`,
		"http+unix:///s":                   `"/s" http://localhost:80 Host localhost / "/" ""`,
		"http+unix:///s:":                  `"/s" http://localhost:80 Host localhost / "/" ""`,
		"http+unix:///run/a.sock?x=:":      `"/run/a.sock" http://localhost:80 Host localhost /?x=: "/" "x=:"`,
		"fcgi+unix:///run/a.sock:/b?c#d":   `"/run/a.sock" fcgi://localhost:9000 Host localhost /b?c "/b" "c"`,
		"fcgi+unix:///run/a.sock:/b:c/:d":  `"/run/a.sock" fcgi://localhost:9000 Host localhost /b:c/:d "/b:c/:d" ""`,
		"fcgi+unix:///a%3Ab%20c:/d%3ae%20": `"/a:b c" fcgi://localhost:9000 Host localhost /d%3ae%20 "/d:e " ""`,
	} {
		p, err := parseURL(text, HTTP11)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		scheme := "http"
		if p.protocol == (fcgiProtocol{}) {
			scheme = "fcgi"
		}
		testkit.Equal(t, fmt.Sprintf("%q %s://%s:%s Host %s %s %q %q", p.socket, scheme, p.name, p.port, p.host, p.target,
			p.path, p.query), want, text)
	}
	long := "/" + strings.Repeat("s", maxSocketPath-1)
	testkit.Equal(t, testkit.Value(parseURL("http+unix://"+long, HTTP11))(t).socket, long)
}

// plannedThread is what one thread sends: its connections, the due times of its first requests, its
// sequence numbers and its place in the list.
type plannedThread struct {
	firstConn, conns int
	due              []int64
	values           sequenceValues
	nextIndex        int
}

// threadsOf returns what each thread of a plan sends.
func threadsOf(t *testing.T, p Plan) (all []plannedThread) {
	t.Helper()
	j := testkit.Value(p.prepare(t.Context()))(t)
	r := newRun(j)
	testkit.Must(t, r.createWorkers())
	defer r.closeWorkers()
	for _, w := range r.workers {
		one := plannedThread{w.firstConn, len(w.conns) / w.job.connsPerBusy(), nil, w.values, w.nextIndex}
		if w.pacer != nil {
			for range 50 {
				one.due = append(one.due, w.pacer.schedule.due)
				w.pacer.schedule.advance()
			}
		}
		all = append(all, one)
	}
	return all
}

// randomPlan returns a plan and numbers of threads for its parts.
func randomPlan(rnd *rand.Rand) (Plan, []int) {
	var threads []int
	sum := 0
	for range 1 + rnd.IntN(6) {
		threads = append(threads, 1+rnd.IntN(5))
		sum += threads[len(threads)-1]
	}
	p := Plan{URL: "http://127.0.0.1:1/", Connections: len(threads) + rnd.IntN(60), Spare: rnd.IntN(2)}
	for i := range rnd.IntN(20) {
		p.List = append(p.List, Request{URL: fmt.Sprintf("/%d", i)})
	}
	switch rnd.IntN(4) {
	case 0:
		p.Pace = Constant(1 + 1e5*rnd.Float64())
	case 1:
		p.Pace.Steps = []Step{{From: 0, To: 1e4 * rnd.Float64(), For: time.Second},
			{From: 5, To: 2000, For: time.Second}}
	case 2:
		p.Pace = Constant(1e4)
		p.Pace.Poisson, p.Pace.Seed = true, 1+rnd.Uint64N(1e6)
	}
	if rnd.IntN(2) == 0 {
		p.Requests = uint64(p.Connections) + rnd.Uint64N(1e15)
	}
	return p, threads
}

// The parts of a plan together send exactly what one process sends.
func TestPartsEqualTheWhole(t *testing.T) {
	testkit.Long(t, "it computes all schedules")
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		p, threads := randomPlan(rnd)
		parts := testkit.Value(p.Split(threads))(t)
		var got []plannedThread
		requests := uint64(0)
		whole := p
		for _, part := range parts {
			whole.Threads += part.Threads
			requests += part.Requests
			got = append(got, threadsOf(t, part)...)
		}
		want := threadsOf(t, whole)
		testkit.Equal(t, got, want, p.Connections, "connections on threads", threads)
		testkit.Equal(t, requests, p.Requests, "requests")
	}
}

func TestSplitRejectsWhatCannotBeDivided(t *testing.T) {
	for name, test := range map[string]struct {
		plan    Plan
		threads []int
	}{
		"no part":             {Plan{}, nil},
		"too few connections": {Plan{Connections: 2}, []int{1, 1, 1}},
		"too few requests":    {Plan{Connections: 100, Requests: 2}, []int{1, 1, 1}},
		"a part":              {Plan{Part: Part{Threads: 2, Connections: 10}}, []int{1}},
	} {
		test.plan.URL = "http://127.0.0.1:1/"
		if _, err := test.plan.Split(test.threads); err == nil {
			t.Errorf("%s: no error", name)
		} else if _, ok := errors.AsType[*PlanError](err); !ok {
			t.Errorf("%s: %T", name, err)
		}
	}
	p := Plan{URL: "http://127.0.0.1:1/", Connections: 4, Threads: 2,
		Part: Part{Threads: 3, FirstThread: 2, Connections: 9}}
	testkit.Fails(p.prepare(t.Context()))(t, "", "a part beyond its whole")
}

func TestPortionsAddUp(t *testing.T) {
	const most = ^uint64(0)
	for _, n := range []uint64{1, 7, 1e9, most} {
		if portion(n, 9, 9) != n || portion(n, 0, 9) != 0 || portion(n, 3, 9) > portion(n, 4, 9) {
			t.Errorf("%d: %d %d %d", n, portion(n, 0, 9), portion(n, 3, 9), portion(n, 4, 9))
		}
	}
}

// dueBy returns how many requests are due by a time, in seconds.
func dueBy(steps []Step, at float64) (n float64) {
	for i, s := range steps {
		length := s.For.Seconds()
		if i == len(steps)-1 && s.For == 0 {
			length = at
		}
		spent, slope := min(at, length), (s.To-s.From)/max(length, 1e-9)
		n += (s.From + slope*spent/2) * spent
		at -= spent
	}
	return n + steps[len(steps)-1].To*at
}

// A request is due when the integral of the rate reaches its number.
func TestRequestsAreDueWhenTheRateIsIntegrated(t *testing.T) {
	for name, steps := range map[string][]Step{
		"constant":  {{From: 1000, To: 1000}},
		"ramp up":   {{From: 0, To: 1000, For: 10 * time.Second}},
		"ramp down": {{From: 1000, To: 10, For: 10 * time.Second}},
		"steps": {{From: 10, To: 10, For: time.Second}, {From: 500, To: 500, For: time.Second},
			{From: 50, To: 50}},
		"a pause": {{From: 10, To: 10, For: time.Second}, {For: 2 * time.Second}, {From: 10, To: 10}},
		"ramps and a plain": {{From: 0, To: 100, For: time.Second}, {From: 100, To: 100, For: time.Second},
			{From: 100, To: 1, For: time.Second}},
		"hardly a ramp":      {{From: 1000, To: 1000.0001, For: time.Hour}},
		"one each two hours": {{From: 1.0 / 7200, To: 1.0 / 7200}},
	} {
		p := newProfile(steps)
		last := int64(-1)
		for n := 0.0; n < 2000; n += 0.5 {
			at := p.timeOf(n)
			if at < last {
				t.Fatalf("%s: request %v is due at %d, before the one before it at %d", name, n, at, last)
			}
			if last = at; at == math.MaxInt64 {
				break
			}
			if got := dueBy(steps, float64(at)/1e9); math.Abs(got-n) > 1e-3 {
				t.Fatalf("%s: request %v is due at %d ns, by when %v are", name, n, at, got)
			}
		}
	}
	testkit.Equal(t, newProfile([]Step{{From: 10, To: 0, For: 2 * time.Second}}).timeOf(11), math.MaxInt64,
		"an eleventh of ten requests")
	testkit.Equal(t, newProfile([]Step{{From: 10, To: 10, For: time.Second}, {For: time.Second},
		{From: 10, To: 10}}).timeOf(11), int64(2100*time.Millisecond), "the request after a pause")
}

// The workers' schedules together have the Pace's rate, evenly spaced, whatever their shares.
func TestSchedulesOfWorkersAddUpToTheRate(t *testing.T) {
	pace := Constant(1000)
	seen := make(map[int64]int)
	for i, share := range []float64{0.5, 0.25, 0.25} {
		s := newSchedule(&pace, share, i, 3)
		n := 0
		for ; s.due < int64(time.Second); s.advance() {
			seen[s.due]++
			n++
		}
		if want := int(1000 * share); n < want-1 || n > want+1 {
			t.Errorf("a worker with %v of the connections has %d requests a second", share, n)
		}
	}
	equal := make([]*schedule, 4)
	var all []int64
	for i := range equal {
		equal[i] = newSchedule(&pace, 0.25, i, 4)
	}
	for range 50 {
		for _, s := range equal {
			all = append(all, s.due)
			s.advance()
		}
	}
	for i, due := range all[1:] {
		if gap := due - all[i]; gap < 999_000 || gap > 1_001_000 {
			t.Fatalf("request %d is due %v after the last", i+1, time.Duration(gap))
		}
	}
}

// A Poisson pace has the requested rate, exponentially distributed gaps, and is reproducible by its
// seed.
func TestPoissonPaceHasRateGapsAndSeed(t *testing.T) {
	pace := Pace{Steps: []Step{{From: 1000, To: 1000}}, Poisson: true, Seed: 7}
	const n = 20_000
	dues := func(p Pace) (all []int64) {
		s := newSchedule(&p, 1, 0, 1)
		for range n {
			all = append(all, s.due)
			s.advance()
		}
		return all
	}
	all := dues(pace)
	var sum, squares float64
	for i, due := range all[1:] {
		gap := float64(due - all[i])
		sum += gap
		squares += gap * gap
	}
	mean := sum / (n - 1)
	deviation := math.Sqrt(squares/(n-1) - mean*mean)
	if math.Abs(mean-1e6) > 4e4 || math.Abs(deviation/mean-1) > 0.05 {
		t.Errorf("gaps are %v ns in the mean and vary by %v; want a million both", mean, deviation)
	}
	again := dues(pace)
	testkit.Equal(t, again[n-1], all[n-1], "the schedule of the same seed")
	if pace.Seed = 8; dues(pace)[n-1] == all[n-1] {
		t.Error("the same schedule came of another seed")
	}
}

func TestInvalidPacesAreRejected(t *testing.T) {
	for name, p := range map[string]Pace{
		"nothing":       {Steps: []Step{{}}},
		"negative":      Constant(-1),
		"not a number":  Constant(math.NaN()),
		"infinite":      Constant(math.Inf(1)),
		"negative time": {Steps: []Step{{From: 1, To: 1, For: -1}}},
	} {
		if p.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, p := range []Pace{{}, Constant(0.01), {Steps: []Step{{From: 0, To: 10, For: time.Second}}}} {
		testkit.Check(t, p.check())
	}
}

func TestConnQueueIsFirstInFirstOut(t *testing.T) {
	var q connQueue
	next, last := 0, 0
	for round := range 1000 {
		for range round%7 + 1 {
			q.push(next)
			next++
		}
		for range round % 8 {
			id, ok := q.pop()
			if !ok {
				break
			}
			if id != last {
				t.Fatalf("took %d, want %d", id, last)
			}
			last++
		}
	}
	if cap(q.queue) > 4*(next-last)+64 {
		t.Errorf("room for %d, where %d wait", cap(q.queue), next-last)
	}
}
