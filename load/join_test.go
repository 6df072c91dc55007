package load_test

import (
	"encoding/json"
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

// joined runs the parts of a plan concurrently, passes their seconds and results through JSON, and
// joins them.
func joined(t *testing.T, p load.Plan, threads []int, second func(load.Second)) *load.Result {
	t.Helper()
	parts := testkit.Value(p.Split(threads))(t)
	names := make([]string, len(parts))
	for i := range names {
		names[i] = fmt.Sprint("part ", i)
	}
	j := load.NewJoiner(parts, names, second)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, part := range parts {
		part.Trace = &load.Trace{Second: func(s load.Second) {
			mu.Lock()
			defer mu.Unlock()
			testkit.Check(t, j.Second(i, throughJSON(t, s)))
		}}
		all.Go(func() {
			r := run(t, part)
			samples := r.Samples
			back := throughJSON(t, *r)
			back.Samples, back.Timeline = samples, nil
			mu.Lock()
			defer mu.Unlock()
			j.End(i, &back, "")
		})
	}
	all.Wait()
	return j.Result()
}

func throughJSON[T any](t *testing.T, v T) (back T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	testkit.Check(t, err)
	return back
}

// sometimesSlow takes 3 ms for some requests and rejects others.
func sometimesSlow(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "3"):
			time.Sleep(3 * time.Millisecond)
		case strings.HasSuffix(r.URL.Path, "7"):
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Percentiles of a joined result are those of all samples.
func TestJoinedFiguresAreThoseOfAllSamples(t *testing.T) {
	testkit.Long(t, "it sends requests for a second")
	const n, rate = 1200, 1000
	for name, pace := range map[string]load.Pace{"closed": {}, "open": load.Constant(rate)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load.Plan{URL: sometimesSlow(t) + "/{{seq 0 9}}", Template: true, Connections: 13, Requests: n,
				Samples: n, Pace: pace}
			r := joined(t, p, []int{2, 1, 1}, nil)
			since := hist.New()
			statuses := map[int]uint64{}
			for _, s := range r.Samples {
				if statuses[int(s.Status)]++; pace.Steps == nil {
					s.Due = s.Sent
				}
				since.Record(s.Done - s.Due)
			}
			if r.Requests != n || len(r.Samples) != n || r.Connections != 13 || r.Threads != 4 || len(r.Parts) != 3 {
				t.Fatalf("%d requests, %d samples, %d connections", r.Requests, len(r.Samples), r.Connections)
			}
			for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
				testkit.Equal(t, r.Latency.Quantile(q), since.Quantile(q), "quantile", q)
			}
			if r.Latency.Mean() != since.Mean() || r.Latency.Max() != since.Max() || r.Latency.Count() != n {
				t.Errorf("mean %v, max %v, count %d", r.Latency.Mean(), r.Latency.Max(), r.Latency.Count())
			}
			// More become due while the last responses come.
			if pace.Steps != nil && (r.NoResponse != 0 || r.Due < n-13 || r.Due > rate*r.Seconds+13) {
				t.Errorf("%v requests were due in %v s, %d were not responded to", r.Due, r.Seconds, r.NoResponse)
			}
			if r.Statuses[200] != statuses[200] || r.Statuses[418] != statuses[418] || statuses[418] == 0 ||
				r.Errors.Status != statuses[418] {
				t.Errorf("statuses %v, errors %+v", r.Statuses, r.Errors)
			}
			checkTimeline(t, r)
		})
	}
}

// checkTimeline compares the seconds with the totals.
func checkTimeline(t *testing.T, r *load.Result) {
	t.Helper()
	all, sum, teapots, kinds := hist.New(), uint64(0), uint64(0), uint64(0)
	for i, s := range r.Timeline {
		h, err := s.Latency.Unpack()
		if err != nil || s.Index != i {
			t.Fatal(s.Index, err)
		}
		all.Merge(h)
		sum += s.Requests
		teapots += s.Statuses[418]
		if s.Kinds != nil {
			kinds += s.Kinds.Status
		}
	}
	if sum != r.Requests || all.Count() != r.Latency.Count() || all.Quantile(0.99) != r.Latency.Quantile(0.99) ||
		teapots != r.Statuses[418] || kinds != r.Errors.Status {
		t.Errorf("the seconds hold %d of %d requests, %d of %d 418s, %d of %d errors", sum, r.Requests, teapots,
			r.Statuses[418], kinds, r.Errors.Status)
	}
}

// Seconds are reported once all running parts have reported them.
func TestJoinerReportsCompleteSeconds(t *testing.T) {
	parts := testkit.Value(load.Plan{URL: "http://127.0.0.1:1/", Connections: 3}.Split([]int{1, 1, 1}))(t)
	var seen []uint64
	j := load.NewJoiner(parts, []string{"a", "b", "c"}, func(s load.Second) { seen = append(seen, s.Requests) })
	add := func(part, index int, d time.Duration) {
		h := hist.New()
		h.Record(d)
		packed, err := h.Pack()
		if err == nil {
			err = j.Second(part, load.Second{Index: index, Requests: 1, Latency: packed,
				Statuses: map[int]uint64{200: 1}})
		}
		testkit.Must(t, err)
	}
	add(0, 0, time.Millisecond)
	add(0, 1, time.Millisecond)
	add(1, 0, time.Millisecond)
	testkit.Equal(t, len(seen), 0, "seconds before the third part's")
	add(2, 0, time.Millisecond)
	add(1, 1, time.Second)
	testkit.Equal(t, seen, []uint64{3}, "requests of seconds")
	j.Lose(2, "it died")
	testkit.Equal(t, seen, []uint64{3, 2}, "requests of seconds")
	testkit.Error(t, j.Second(2, load.Second{Index: 1}), "", "a second of a lost part")
	testkit.Error(t, j.Second(0, load.Second{Index: 2, Latency: hist.Packed{Encoded: "x"}}), "", "a damaged histogram")
	j.Lose(0, "it died, too")
	j.Lose(1, "it died, too")
	r := j.Result()
	if r.Requests != 5 || r.Statuses[200] != 5 || r.Latency.Count() != 5 || r.Latency.Max() != time.Second ||
		len(r.Timeline) != 2 || r.Timeline[0].Requests != 3 {
		t.Errorf("%+v", r)
	}
	if lost := r.Parts[2].Lost; !strings.Contains(lost, "it died") || r.Parts[2].Requests != 1 {
		t.Errorf("%+v", r.Parts[2])
	}
	testkit.Contains(t, strings.Join(r.Doubts(), "\n"), "on c was lost: it died", "doubts")
}
