package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
)

// patience is the longest time for a record before the test assumes a hang.
const patience = 30 * time.Second

// served is an agent with its pipes.
type served struct {
	in      *io.PipeWriter
	records chan agent.Record
	err     chan error
}

func serve(t *testing.T, o agent.Options) *served {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &served{in: inW, records: make(chan agent.Record, 1000), err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		s.err <- agent.Serve(ctx, inR, outW, o)
		outW.Close()
	}()
	go func() {
		defer close(s.records)
		lines := bufio.NewScanner(outR)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var r agent.Record
			testkit.Check(t, json.Unmarshal(lines.Bytes(), &r))
			s.records <- r
		}
	}()
	t.Cleanup(func() { inW.Close() })
	return s
}

func (s *served) send(t *testing.T, format string, args ...any) {
	t.Helper()
	testkit.Send(t, s.in, fmt.Sprintf(format+"\n", args...))
}

// next returns the next record that is wanted.
func (s *served) next(t *testing.T, wanted func(agent.Record) bool) agent.Record {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case r, ok := <-s.records:
			if !ok {
				t.Fatal("the output ended")
			}
			if wanted(r) {
				return r
			}
		case <-late:
			t.Fatal("the record has not come")
		}
	}
}

func (s *served) end(t *testing.T) error {
	t.Helper()
	return testkit.Receive(t, s.err, "the agent's end")
}

func isHello(r agent.Record) bool { return r.Hello != nil }
func isReady(r agent.Record) bool { return r.Ready != nil }
func isBegan(r agent.Record) bool { return r.Began != nil }
func isOver(r agent.Record) bool  { return r.Result != nil || r.Error != nil }

func counting(t *testing.T) (url string, served *atomic.Int64) {
	t.Helper()
	served = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, served
}

// A run waits for its start, however it measures, and reports each of its requests.
func TestRunWaitsForItsStart(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	for name, limit := range map[string]string{"duration": `"durationNs":1300000000`, "requests": `"requests":500`} {
		t.Run(name, func(t *testing.T) {
			prelude := int64(0)
			if name == "duration" {
				prelude = 3 // one on each connection shows that the server has accepted it
			}
			url, count := counting(t)
			s := serve(t, agent.Options{Tool: "tool"})
			s.send(t, `{"hello":{"version":%d}}`, agent.Version)
			if h := s.next(t, isHello).Hello; h.Version != agent.Version || h.Tool != "tool" || h.CPUs < 1 {
				t.Errorf("%+v", h)
			}
			s.send(t, `{"plan":{"url":%q,"connections":3,"samples":100000,%s}}`, url, limit)
			ready := s.next(t, isReady).Ready
			s.send(t, `{"ping":7}`)
			pong := s.next(t, func(r agent.Record) bool { return r.Pong != nil }).Pong
			if pong.Ping != 7 || pong.Clock < ready.Clock {
				t.Errorf("%+v", pong)
			}
			testkit.Equal(t, count.Load(), prelude, "requests before the start")
			at := pong.Clock + 300*time.Millisecond
			s.send(t, `{"start":{"atNs":%d}}`, at)
			if began := s.next(t, isBegan).Began; began.Clock < at {
				t.Errorf("it began %v early", at-began.Clock)
			}
			seconds, samples := uint64(0), 0
			last := s.next(t, func(r agent.Record) bool {
				if r.Second != nil {
					seconds += r.Second.Requests
				}
				samples += len(r.Samples)
				return isOver(r)
			})
			r := last.Result
			if last.Error != nil || r.Requests == 0 || seconds != r.Requests ||
				name == "requests" && r.Requests != 500 || uint64(samples) != min(r.Requests, 100000) {
				t.Errorf("%+v: %d requests, %d in seconds, %d samples", last.Error, r.Requests, seconds, samples)
			}
			s.in.Close()
			testkit.Check(t, s.end(t))
		})
	}
}

// An agent runs one plan after another, and goes on after an invalid one.
func TestAgentRunsSeveralPlans(t *testing.T) {
	url, _ := counting(t)
	s := serve(t, agent.Options{})
	kinds := ""
	for _, plan := range []string{
		`{"url":"ftp://x"}`, fmt.Sprintf(`{"url":%q,"requests":10}`, url), `{"url":"http://127.0.0.1:1/","durationNs":1}`,
		fmt.Sprintf(`{"url":%q,"http":"9"}`, url), fmt.Sprintf(`{"url":%q,"tls":{"caPem":"x"}}`, url),
		fmt.Sprintf(`{"url":%q,"requests":20}`, url),
	} {
		s.send(t, `{"plan":%s}`, plan)
		r := s.next(t, func(r agent.Record) bool { return isReady(r) || isOver(r) })
		if isReady(r) {
			s.send(t, `{"start":{}}`)
			r = s.next(t, isOver)
		}
		if r.Error != nil {
			kinds += string(r.Error.Kind) + " "
		} else {
			kinds += fmt.Sprintf("%d ", r.Result.Requests)
		}
	}
	testkit.Equal(t, kinds, "plan 10 connect plan plan 20 ")
}

// The end of the input, a stop, and the end of the context end a run early, with its result.
func TestRunEndsEarly(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	url, _ := counting(t)
	for name, end := range map[string]func(*served){
		"stop":  func(s *served) { s.send(t, `{"stop":true}`) },
		"input": func(s *served) { s.in.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, agent.Options{})
			s.send(t, `{"plan":{"url":%q,"durationNs":%d}}`, url, time.Hour)
			s.send(t, `{"start":{}}`)
			s.next(t, func(r agent.Record) bool { return r.Second != nil })
			end(s)
			if r := s.next(t, isOver); r.Error == nil || r.Error.Kind != agent.Interrupted || r.Result.Requests == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestInvalidCommandsEndTheAgent(t *testing.T) {
	for input, want := range map[string]string{
		`{"hello":{"version":99}}`:   "version 99",
		`{"start":{}}`:               "without a plan",
		`{"plan":7}`:                 "invalid command",
		"\x00":                       "invalid command",
		`{"plan":{"connectoins":9}}`: `unknown field "connectoins"`,
		`{"plan":{"url":"http://x"}`: "unexpected EOF",
	} {
		s := serve(t, agent.Options{})
		s.send(t, "%s", input)
		s.in.Close()
		testkit.Error(t, s.end(t), want, input)
	}
}

// An agent whose controller is silent ends, in a run, too.
func TestSilenceEndsTheAgent(t *testing.T) {
	url, _ := counting(t)
	s := serve(t, agent.Options{Silence: time.Millisecond})
	testkit.Error(t, s.end(t), "no message")
	s = serve(t, agent.Options{})
	// The agent receives both together: it may wait for less time than this test between them.
	s.send(t, `{"hello":{"version":%d,"silenceNs":%d}}`+"\n"+`{"plan":{"url":%q,"durationNs":%d}}`, agent.Version,
		100*time.Millisecond, url, time.Hour)
	testkit.Error(t, s.end(t), "no message")
}

// A reader that is gone ends the agent.
func TestUnwritableOutputEndsTheAgent(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	done := make(chan error, 1)
	go func() { done <- agent.Serve(context.Background(), in, failing{}, agent.Options{}) }()
	fmt.Fprintln(out, `{"ping":1}`)
	testkit.Is(t, testkit.Receive(t, done, "the agent's end"), io.ErrClosedPipe)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// All fields of a plan survive the way through JSON.
func TestPlanRoundTrips(t *testing.T) {
	p := load.Plan{
		URL: "http://x/", Method: "PUT", Header: []string{"A: b"}, Body: "\xff\x00", Params: []string{"A=b"},
		Version: load.HTTP2, List: []load.Request{{URL: "/a", Method: "GET", Header: []string{"C: d"}, Body: "e"}},
		Shuffle: true, Template: true, Connections: 1, Threads: 2, Warmup: 3, Duration: 4,
		Requests: 5, Timeout: 6, PerConnection: 7, Pipeline: 8, Think: 9,
		Pace:  load.Pace{Steps: []load.Step{{From: 1, To: 2, For: 3}}, Poisson: true, Seed: 4},
		Spare: 10, Expect: load.Expect{Status: []int{200}, Body: []byte("x"), Header: []string{"Z"}},
		MaxErrors: 11, Samples: 12, CPUs: []int{13},
		Part: load.Part{Threads: 14, FirstThread: 15, Connections: 16, FirstConnection: 17},
	}
	roundTrip := func(p load.Plan) load.Plan {
		wire := testkit.Value(agent.NewPlan(p, &agent.TLS{Insecure: true, ServerName: "n"}))(t)
		var back agent.Plan
		testkit.Must(t, json.Unmarshal(testkit.Value(json.Marshal(wire))(t), &back))
		return testkit.Value(back.Load())(t)
	}
	got := roundTrip(p)
	if got.TLS == nil || !got.TLS.InsecureSkipVerify || got.TLS.ServerName != "n" {
		t.Fatal(got.TLS)
	}
	got.TLS = nil
	testkit.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", p))
	p.Expect.Body = []byte{} // an empty body is expected; nil would allow any
	testkit.Equal(t, roundTrip(p).Expect.Body != nil, true, "an expected body that is empty arrives")
	testkit.Fails(agent.NewPlan(load.Plan{Header: []string{"A: \xff"}}, nil))(t, "", "a field that JSON would change")
}

// about returns a condition for records of a session.
func about(id int) func(agent.Record) bool {
	return func(r agent.Record) bool { return r.Session != nil && r.Session.ID == id }
}

// The number of a closed session is free, and the end of the input ends a session in its slice. What
// slices count is shown by TestSessionOfAnAgent in load/fleet.
func TestSessionsEnd(t *testing.T) {
	url, _ := counting(t)
	s := serve(t, agent.Options{})
	for id := 1; id <= 2; id++ {
		s.send(t, `{"session":{"id":%d,"plan":{"url":%q,"connections":2}}}`, id, url)
		if r := s.next(t, about(id)); !r.Session.IsOpen || r.Error != nil {
			t.Fatalf("%+v", r)
		}
	}
	s.send(t, `{"session":{"id":2,"slice":{"forNs":1,"counts":true}}}`)
	if r := s.next(t, about(2)); r.Session.Slice == nil {
		t.Errorf("%+v", r)
	}
	s.send(t, `{"session":{"id":2,"close":true}}`)
	if r := s.next(t, about(2)); r.Result == nil {
		t.Errorf("%+v", r)
	}
	s.send(t, `{"session":{"id":2,"plan":{"url":"http://127.0.0.1:1/","connections":1,"timeoutNs":1000000000}}}`)
	if r := s.next(t, about(2)); r.Error == nil || r.Error.Kind != agent.NoConnection {
		t.Errorf("%+v", r)
	}
	s.send(t, `{"session":{"id":1,"slice":{"forNs":%d,"counts":true}}}`, time.Hour)
	s.in.Close()
	if r := s.next(t, about(1)); r.Error == nil || r.Error.Kind != agent.Interrupted {
		t.Errorf("%+v", r)
	}
	testkit.Check(t, s.end(t))
}

// Invalid plans and closed sessions are reported, and the agent goes on. Commands in the wrong
// order end it.
func TestInvalidSessionsAreReported(t *testing.T) {
	url, _ := counting(t)
	s := serve(t, agent.Options{})
	for command, kind := range map[string]agent.ErrorKind{
		`{"id":1,"plan":{"url":"ftp://x"}}`:                         agent.BadPlan,
		`{"id":1,"plan":{"url":"http://127.0.0.1:1/","samples":1}}`: agent.BadPlan,
		`{"id":1,"close":true}`:                                     agent.Failed,
		`{"id":7,"slice":{"forNs":1}}`:                              agent.Failed,
	} {
		s.send(t, `{"session":%s}`, command)
		if r := s.next(t, func(r agent.Record) bool { return r.Session != nil }); r.Error == nil ||
			r.Error.Kind != kind {
			t.Errorf("%s: %+v, want %s", command, r.Error, kind)
		}
	}
	for range 1000 { // the number of a session that has ended is free at once
		s.send(t, `{"session":{"id":1,"plan":{"url":"ftp://x"}}}`)
		if r := s.next(t, about(1)); r.Error == nil || r.Error.Kind != agent.BadPlan {
			t.Fatalf("%+v", r)
		}
	}
	for want, command := range map[string]string{
		"session 1, which is open": fmt.Sprintf(`{"id":1,"plan":{"url":%q}}`, url),
		"two commands":             `{"id":1,"slice":{"forNs":3600000000000}}`,
	} {
		s := serve(t, agent.Options{})
		s.send(t, `{"session":{"id":1,"plan":{"url":%q,"connections":1}}}`, url)
		s.next(t, about(1))
		go func() {
			for range 3 { // at most one runs and one waits
				fmt.Fprintf(s.in, "{\"session\":%s}\n", command)
			}
		}()
		testkit.Error(t, s.end(t), want, command)
	}
}
