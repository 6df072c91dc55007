package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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
	j, err := p.prepare(t.Context())
	testkit.Must(t, err)
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
	for range 200 {
		p, threads := randomPlan(rnd)
		parts, err := p.Split(threads)
		testkit.Must(t, err)
		var got []plannedThread
		requests := uint64(0)
		whole := p
		for _, part := range parts {
			whole.Threads += part.Threads
			requests += part.Requests
			got = append(got, threadsOf(t, part)...)
		}
		want := threadsOf(t, whole)
		if !slices.EqualFunc(got, want, func(a, b plannedThread) bool {
			return a.firstConn == b.firstConn && a.conns == b.conns && slices.Equal(a.due, b.due) &&
				a.values == b.values && a.nextIndex == b.nextIndex
		}) {
			t.Fatalf("%d connections on threads %v:\n%+v\nwant\n%+v", p.Connections, threads, got, want)
		}
		if requests != p.Requests {
			t.Fatalf("%d of %d requests", requests, p.Requests)
		}
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
	if _, err := p.prepare(t.Context()); err == nil {
		t.Error("a part beyond its whole is accepted")
	}
}

func TestPortionsAddUp(t *testing.T) {
	const most = ^uint64(0)
	for _, n := range []uint64{1, 7, 1e9, most} {
		if portion(n, 9, 9) != n || portion(n, 0, 9) != 0 || portion(n, 3, 9) > portion(n, 4, 9) {
			t.Errorf("%d: %d %d %d", n, portion(n, 0, 9), portion(n, 3, 9), portion(n, 4, 9))
		}
	}
}
