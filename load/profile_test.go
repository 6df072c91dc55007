package load

import (
	"math"
	"testing"
	"time"
)

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
	if at := newProfile([]Step{{From: 10, To: 0, For: 2 * time.Second}}).timeOf(11); at != math.MaxInt64 {
		t.Errorf("an eleventh of ten requests is due at %d", at)
	}
	if at := newProfile([]Step{{From: 10, To: 10, For: time.Second}, {For: time.Second},
		{From: 10, To: 10}}).timeOf(11); at != int64(2100*time.Millisecond) {
		t.Errorf("the request after a pause is due at %v", time.Duration(at))
	}
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
	if all[n-1] != again[n-1] {
		t.Error("another schedule came of the same seed")
	}
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
		if err := p.check(); err != nil {
			t.Error(err)
		}
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
