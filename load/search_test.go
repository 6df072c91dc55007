package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// fake simulates runs of a Search: up to a capacity all due requests have a response within 1 ms;
// above it fewer have one, with growing latency.
type fake struct {
	capacity  float64
	generator float64                                     // the most that it can send; no bound if 0
	disturb   func(run int, rate float64, r *load.Result) // may be nil
	plans     []load.Plan
}

func (f *fake) run(_ context.Context, p load.Plan) (*load.Result, error) {
	f.plans = append(f.plans, p)
	r := &load.Result{
		URL: p.URL, Warmup: p.Warmup.Seconds(), Seconds: p.Duration.Seconds(), Opened: 1,
		Latency: hist.New(), Service: hist.New(), Generator: load.Generator{Lag: hist.New()},
	}
	rate, elapsed := f.capacity, time.Millisecond
	if len(p.Pace.Steps) > 0 {
		rate = p.Pace.Steps[0].To
		r.Due = rate * r.Seconds
		if rate > f.capacity {
			elapsed = time.Second
		}
	}
	if f.generator > 0 && rate > f.generator {
		r.Generator.Busy = 1
	}
	r.Requests = uint64(min(rate, f.capacity) * r.Seconds)
	for i := range 100 {
		r.Latency.Record(elapsed * time.Duration(i+1) / 100)
		r.Generator.Lag.Record(time.Microsecond)
	}
	if f.disturb != nil {
		f.disturb(len(f.plans), rate, r)
	}
	return r, nil
}

func mustGoal(t *testing.T, text string) load.Goal {
	t.Helper()
	return testkit.Value(load.ParseGoal(text))(t)
}

// find runs a search. Fake runs take 1 s, so the lowest rate has 10 requests.
func find(t *testing.T, f *fake, s load.Search, p load.Plan) *load.SearchResult {
	t.Helper()
	s.Run, s.Step = f.run, time.Second
	if len(s.Goal.Bounds) == 0 {
		s.Goal = mustGoal(t, "p99<10ms")
	}
	found := testkit.Value(s.Find(t.Context(), p))(t)
	testkit.Equal(t, len(found.Tries), len(f.plans), "tries")
	return found
}

// rates formats the tried rates for errors.
func rates(f *load.SearchResult) string {
	var s strings.Builder
	for _, t := range f.Tries {
		fmt.Fprintf(&s, " %s %.0f %t", t.Purpose, t.Rate, t.Sustained)
	}
	return s.String()
}

func TestSearchFindsTheCapacity(t *testing.T) {
	for _, capacity := range []float64{11, 300, 41_500, 7e6} {
		for _, from := range []float64{0, capacity / 50, capacity, 10 * capacity} {
			found := find(t, &fake{capacity: capacity}, load.Search{From: from, Precision: 0.01}, load.Plan{})
			if found.Verdict != load.Settled || found.Sustained > capacity || found.Failed <= capacity ||
				found.Failed > found.Sustained*1.01 {
				t.Errorf("capacity %v, from %v: %v sustained, %v not, %s:%s", capacity, from, found.Sustained,
					found.Failed,
					found.Verdict, rates(found))
			}
			testkit.Between(t, len(found.Tries), 0, 40, "runs for capacity", capacity, "from", from)
		}
	}
}

// A failed rate runs twice, the result twice more, and each run has the Plan's pace.
func TestSearchRepeatsFailuresAndConfirms(t *testing.T) {
	f := &fake{capacity: 1000}
	plan := load.Plan{URL: "http://x/", Connections: 7, Pace: load.Pace{Poisson: true, Seed: 3}, Requests: 5,
		Duration: time.Hour}
	reported := 0
	found := find(t, f, load.Search{From: 600, Precision: 0.5, Tried: func(load.Try) { reported++ }}, plan)
	want := []float64{600, 1200, 1200, 848.528, 848.528, 848.528}
	for i, p := range f.plans {
		if i >= len(want) || p.Pace.Steps[0].To-want[i] > 0.01 || want[i]-p.Pace.Steps[0].To > 0.01 {
			t.Fatalf("run %d:%s", i, rates(found))
		}
		if !p.Pace.Poisson || p.Pace.Seed != 3 || p.Connections != 7 || p.Requests != 0 || p.Duration != time.Second ||
			p.Warmup != time.Second/5 {
			t.Errorf("run %d: %+v", i, p)
		}
	}
	if len(f.plans) != len(want) || reported != len(want) || found.Tries[5].Purpose != load.ToConfirm {
		t.Errorf("%d runs, %d reported:%s", len(f.plans), reported, rates(found))
	}
	if try := found.Tries[1]; try.Sustained || try.P99 < 980*time.Millisecond || try.Achieved != 1000 ||
		len(try.Why) != 2 ||
		!strings.HasPrefix(try.Why[1], "p99 990ms, want <10ms") {
		t.Errorf("%+v", try)
	}
	testkit.Equal(t, len(plan.Pace.Steps), 0, "steps of the caller's plan")
}

// A single disturbed run does not count, neither below nor, if it succeeds by luck, above the
// capacity.
func TestSearchIgnoresSingleDisturbances(t *testing.T) {
	const capacity = 1000
	for every := 2; every < 9; every++ {
		last := 0.0
		f := &fake{capacity: capacity}
		f.disturb = func(run int, rate float64, r *load.Result) {
			if rate <= capacity && run%every == 0 && rate != last {
				r.Latency.Reset()
				r.Latency.Record(time.Second)
				last = rate // the second run at a rate is never disturbed
			}
		}
		found := find(t, f, load.Search{From: 100}, load.Plan{})
		if found.Sustained > capacity || found.Sustained < 0.9*capacity {
			t.Errorf("one in %d disturbed: %v sustained, %v not:%s", every, found.Sustained, found.Failed, rates(found))
		}
	}
	lucky := &fake{capacity: capacity}
	lucky.disturb = func(_ int, rate float64, r *load.Result) {
		if n := len(lucky.plans); rate > capacity && n > 1 && rate == 1600 && lucky.plans[n-2].Pace.Steps[0].To < rate {
			r.Latency.Reset()
			r.Latency.Record(time.Millisecond)
			r.Requests = uint64(r.Due)
		}
	}
	found := find(t, lucky, load.Search{From: 800}, load.Plan{})
	if found.Verdict != load.Settled || found.Sustained > capacity || found.Sustained < 0.7*capacity ||
		found.Failed > 1600 {
		t.Errorf("sustained by luck: %v sustained, %v not, %s:%s", found.Sustained, found.Failed, found.Verdict,
			rates(found))
	}
}

func TestSearchWithoutALimitIsReported(t *testing.T) {
	if f := find(t, &fake{capacity: 1}, load.Search{From: 5000}, load.Plan{}); f.Verdict != load.NoneSustained ||
		f.Sustained != 0 || f.Failed != 10 {
		t.Errorf("none sustained: %+v:%s", f.Verdict, rates(f))
	}
	f := find(t, &fake{capacity: 1e6}, load.Search{From: 100, To: 5000}, load.Plan{})
	if f.Verdict != load.AllSustained || f.Sustained != 5000 || f.Failed != 0 {
		t.Errorf("all sustained: %v, %s:%s", f.Sustained, f.Verdict, rates(f))
	}
	f = find(t, &fake{capacity: 1e6}, load.Search{From: 100, Runs: 9}, load.Plan{})
	if f.Verdict != load.Unsettled || f.Sustained != 100*1<<5 || len(f.Tries) > 9 {
		t.Errorf("few runs: %v, %s:%s", f.Sustained, f.Verdict, rates(f))
	}
	if f := find(t, &fake{capacity: 1e6}, load.Search{From: 100, Runs: 1}, load.Plan{}); f.Verdict != load.Unsettled ||
		f.Sustained != 0 || len(f.Tries) > 1 {
		t.Errorf("one run: %v, %s:%s", f.Sustained, f.Verdict, rates(f))
	}
}

// If the generator is the limit, the search reveals nothing about the server.
func TestSearchReportsTheGeneratorsLimit(t *testing.T) {
	f := find(t, &fake{capacity: 1e6, generator: 5000}, load.Search{From: 1500}, load.Plan{})
	if f.Verdict != load.GeneratorBound || f.Sustained > 5000 || f.Failed < 5000 || f.Failed > 1.25*f.Sustained ||
		len(f.Tries) > 9 || !f.Tries[2].Generator {
		t.Errorf("%v sustained, %s:%s", f.Sustained, f.Verdict, rates(f))
	}
	if f := find(t, &fake{capacity: 1e6, generator: 5000}, load.Search{From: 40_000},
		load.Plan{}); f.Verdict != load.GeneratorBound || f.Sustained > 5000 || f.Failed < 5000 ||
		f.Failed > 1.25*f.Sustained {
		t.Errorf("from above: %v sustained, %s:%s", f.Sustained, f.Verdict, rates(f))
	}
	// Latency that exceeds the goal only because of the generator's lag is not the server's fault;
	// other latency is.
	for lag, want := range map[time.Duration]bool{15 * time.Millisecond: true, 2 * time.Millisecond: false} {
		late := &fake{capacity: 1e6, disturb: func(_ int, rate float64, r *load.Result) {
			if rate > 1000 {
				r.Latency.Reset()
				r.Latency.Record(20 * time.Millisecond)
				r.Generator.Lag.Reset()
				r.Generator.Lag.Record(lag)
			}
		}}
		f := find(t, late, load.Search{From: 900}, load.Plan{})
		testkit.Equal(t, f.Verdict == load.GeneratorBound, want, "late by", lag, rates(f))
	}
}

// Errors and missing responses are shares of the due requests.
func TestSearchCountsErrorsAndMissingResponses(t *testing.T) {
	const usual = 7 // that may be under way at the end, by chance, at 4000/s and 1 ms
	for name, count := range map[string]func(r *load.Result){
		"errors": func(r *load.Result) { r.Errors.Status = uint64(r.Due / 50) },
		"no response": func(r *load.Result) {
			r.NoResponse = uint64(r.Due/50) + usual
			for range r.NoResponse {
				r.Latency.Record(r.Latency.Max() + time.Second/10)
			}
		},
	} {
		f := &fake{capacity: 1e6, disturb: func(_ int, rate float64, r *load.Result) {
			if rate > 3000 {
				count(r)
			}
		}}
		found := find(t, f, load.Search{Goal: mustGoal(t, "errors<1%"), From: 2000}, load.Plan{})
		if found.Verdict != load.Settled || found.Sustained > 3000 || found.Failed < 3000 ||
			!strings.HasPrefix(found.Tries[1].Why[0], "errors 2") {
			t.Errorf("%s: %v sustained, %v not:%s %v", name, found.Sustained, found.Failed, rates(found),
				found.Tries[1].Why)
		}
	}
	// Requests in flight at the end for no longer than usual are no errors.
	f := &fake{capacity: 1e6, disturb: func(_ int, _ float64, r *load.Result) { r.NoResponse = 50 }}
	found := find(t, f, load.Search{Goal: mustGoal(t, "errors<=0"), From: 100, To: 1000}, load.Plan{})
	testkit.Equal(t, found.Verdict, load.AllSustained, "under way:", rates(found), found.Tries[0].Why)
}

func TestSearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{capacity: 1000}
	s := load.Search{From: 100, Step: time.Second, Run: func(ctx context.Context, p load.Plan) (*load.Result, error) {
		if len(f.plans) == 2 {
			cancel()
		}
		r, _ := f.run(ctx, p)
		return r, ctx.Err()
	}}
	found, err := s.Find(ctx, load.Plan{})
	if !errors.Is(err, context.Canceled) || len(found.Tries) != 2 || found.Verdict != load.Unsettled ||
		found.Sustained != 0 {
		t.Errorf("%v, %+v", err, found)
	}
	for _, bad := range []load.Search{
		{From: -1}, {From: 2, To: 1}, {Precision: 1}, {Precision: -0.1}, {Step: -1}, {Confirmations: -1}, {Runs: -1},
		{To: 1e10},
	} {
		testkit.As[*load.PlanError](t, second(bad.Find(t.Context(), load.Plan{})), "", bad)
	}
	if _, ok := errors.AsType[*load.PlanError](second(load.Search{}.Find(t.Context(),
		load.Plan{Pace: load.Constant(5)}))); !ok {
		t.Error("a plan with a rate is accepted")
	}
}

func second(_ *load.SearchResult, err error) error { return err }

// queue handles requests one after the other, each for the same time, so its capacity is known on
// any machine.
func queue(capacity float64) http.HandlerFunc {
	var mu sync.Mutex
	var free time.Time // when all requests so far will have been served
	each := time.Duration(float64(time.Second) / capacity)
	return func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(each)
		done := free
		mu.Unlock()
		time.Sleep(time.Until(done))
	}
}

// Without From, a closed loop sets the first rate; without a server, the search returns an error.
func TestSearchStartsWithAClosedLoop(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	server := httptest.NewServer(queue(400))
	defer server.Close()
	s := load.Search{To: 1, Confirmations: 1}
	s.Step = time.Second
	found := testkit.Value(s.Find(t.Context(), load.Plan{URL: server.URL, Connections: 20, Threads: 1}))(t)
	if first := found.Tries[0]; first.Purpose != load.ToStart || first.Rate != 0 || first.Achieved > 600 ||
		first.Achieved == 0 {
		t.Errorf("the closed loop: %+v", first)
	}
	if _, err := s.Find(t.Context(), load.Plan{URL: "http://127.0.0.1:1"}); err == nil {
		t.Error("nobody was there, and no error")
	} else if _, ok := errors.AsType[*load.ConnectError](err); !ok {
		t.Errorf("%v, want a ConnectError", err)
	}
}

func TestParseGoalReadsItsOwnText(t *testing.T) {
	for text, want := range map[string][]load.Bound{
		"p99<10ms": {{Quantile: 0.99, Limit: 10e6}},
		"p50<=2ms": {{Quantile: 0.5, Limit: 2e6, Equal: true}},
		" p99.9 < 1s , mean<5ms": {{Quantile: 0.999, Limit: 1e9},
			{Figure: load.Mean, Limit: 5e6}},
		"max<=1.5s":    {{Figure: load.Max, Limit: 1500e6, Equal: true}},
		"errors<0.1%":  {{Figure: load.ErrorShare, Limit: 0.001}},
		"errors<0.001": {{Figure: load.ErrorShare, Limit: 0.001}},
		"errors<=0":    {{Figure: load.ErrorShare, Equal: true}},
		"errors>0":     {{Figure: load.ErrorShare, Equal: true, Fails: true}},
		"p99>=10ms":    {{Quantile: 0.99, Limit: 10e6, Fails: true}},
		"rps>=1000,rps<2e3": {{Figure: load.Rate, Limit: 1000, Equal: true},
			{Figure: load.Rate, Limit: 2000, Equal: true, Fails: true}},
		" cpu > +3 % , rps<-5%": {{Figure: load.CPU, Limit: 0.03, Change: true, Equal: true, Fails: true},
			{Figure: load.Rate, Limit: -0.05, Change: true, Equal: true, Fails: true}},
		"cpu>+0%,p99<+1e1%": {{Figure: load.CPU, Change: true, Equal: true, Fails: true},
			{Quantile: 0.99, Limit: 0.1, Change: true}},
	} {
		got, err := load.ParseGoal(text)
		if err != nil || len(got.Bounds) != len(want) {
			t.Errorf("%q: %+v, %v", text, got, err)
			continue
		}
		for i, b := range got.Bounds {
			if near(b.Quantile, want[i].Quantile) && near(b.Limit, want[i].Limit) {
				b.Quantile, b.Limit = want[i].Quantile, want[i].Limit
			}
			testkit.Equal(t, b, want[i], text)
		}
		testkit.Equal(t, testkit.Value(load.ParseGoal(got.String()))(t), got, text)
	}
}

func near(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }

func TestInvalidGoalsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "want a figure, < or >",
		"p99":                "want a figure, < or >",
		"p99<10":             `limit "10": want a duration above 0`,
		"p99<-1ms":           "want a duration above 0",
		"p99<":               "want a duration above 0",
		"p0<1ms":             `figure "p0"`,
		"p100<1ms":           `figure "p100"`,
		"pInf<1ms":           `figure "pInf"`,
		"p1e1<1ms":           `figure "p1e1"`,
		"median<1ms":         `figure "median": want mean, max, errors, rps, cpu or a percentile`,
		"p99<1ms,":           "want a figure, < or >",
		"errors<0":           "want errors<=0 or errors>0, which allow no error",
		"errors<200%":        `limit "200%": want a share such as 0.1% or 0.001`,
		"errors<NaN":         "want a share",
		"errors>+1x":         "want a share",
		"cpu>3%":             "want a signed change such as +3%",
		"cpu>+3":             "want a signed change",
		"cpu>+NaN%":          "want a signed change",
		"rps<-100%":          "above -100%",
		"rps<x":              "want a number of requests/s",
		"cpu>+3%>":           "want a signed change",
		"p99<1ms,errors<1ms": `goal "errors<1ms": limit "1ms"`,
	} {
		_, err := load.ParseGoal(text)
		testkit.Error(t, err, "load: goal ", text)
		testkit.Error(t, err, want, text)
	}
}

func TestGoalRoundTripsThroughJSON(t *testing.T) {
	for _, text := range []string{"", "p99.9<1.5ms,errors<=0.25%"} {
		b, _ := json.Marshal(text)
		var g load.Goal
		testkit.Must(t, json.Unmarshal(b, &g))
		if back, err := json.Marshal(g); err != nil || string(back) != strings.ReplaceAll(string(b), "<", `\u003c`) &&
			string(back) != string(b) {
			t.Errorf("%s becomes %s, %v", b, back, err)
		}
	}
}
