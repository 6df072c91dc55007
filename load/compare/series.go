package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tarehq/tare/load/report"
)

// second is one second of a run, or several together, as the bootstrap draws it.
type second struct {
	length, requests, ended, errors float64
	bins                            []bin
}

// bin counts the requests with the same latency, given as an index into series.times.
type bin struct {
	time  int32
	count float64
}

// series holds the timelines of a side's runs.
type series struct {
	runs  [][]second
	times []float64 // distinct latencies in nanoseconds, rising
	known bool      // every second has a histogram
}

const (
	// maxSeconds limits the parts of a run's timeline. The seconds of longer runs are merged.
	maxSeconds = 240
	// minSeconds is the fewest seconds of a run that allow an interval. With fewer, its bounds
	// would be guesses.
	minSeconds = 8
)

// newSeries returns the timelines of a side. The remark names what they lack.
func newSeries(s Side) (_ *series, remark string) {
	all := &series{known: true}
	numbers := make(map[time.Duration]int32)
	for _, r := range s.Runs {
		seconds, isComplete := split(r, numbers)
		all.known = all.known && isComplete
		all.runs = append(all.runs, seconds)
	}
	all.sortTimes(numbers)
	switch {
	case !all.enough():
		remark = fmt.Sprintf("%s is too short for intervals: want at least %d seconds.", s.Name, minSeconds)
	case !all.known:
		remark = fmt.Sprintf("%s lacks histograms of some seconds: its latencies have no intervals.", s.Name)
	}
	return all, remark
}

// split returns the seconds of a run, merged if there are too many. It numbers the latencies in the
// order in which it finds them. isComplete is false if a second lacks its histogram.
func split(r *report.Run, numbers map[time.Duration]int32) (seconds []second, isComplete bool) {
	each := (len(r.Timeline) + maxSeconds - 1) / maxSeconds
	isComplete = true
	counts := make(map[int32]float64)
	for i, s := range r.Timeline {
		if i%each == 0 {
			seconds = append(seconds, second{})
			clear(counts)
		}
		last := &seconds[len(seconds)-1]
		last.length += r.SecondLength(i)
		last.requests += float64(s.Requests)
		last.ended += float64(s.Requests)
		if s.Kinds != nil {
			last.ended += float64(s.Kinds.WithoutResponse())
		}
		last.errors += float64(s.Errors)
		h, err := s.Latency.Unpack()
		if err != nil || h.Count() != s.Latency.Count || s.Requests > 0 && h.Count() == 0 {
			isComplete = false
			continue
		}
		for d, n := range h.All() {
			if _, ok := numbers[d]; !ok {
				numbers[d] = int32(len(numbers))
			}
			counts[numbers[d]] += float64(n)
		}
		if i%each == each-1 || i == len(r.Timeline)-1 {
			for t, n := range counts {
				last.bins = append(last.bins, bin{t, n})
			}
		}
	}
	return seconds, isComplete
}

func (s *series) sortTimes(numbers map[time.Duration]int32) {
	rising := slices.Sorted(maps.Keys(numbers))
	renumbered := make([]int32, len(rising))
	for i, d := range rising {
		renumbered[numbers[d]] = int32(i)
		s.times = append(s.times, float64(d))
	}
	for _, run := range s.runs {
		for i := range run {
			for j := range run[i].bins {
				run[i].bins[j].time = renumbered[run[i].bins[j].time]
			}
			slices.SortFunc(run[i].bins, func(a, b bin) int { return int(a.time - b.time) })
		}
	}
}

func (s *series) enough() bool {
	isShort := func(run []second) bool { return len(run) < minSeconds }
	return len(s.runs) > 0 && !slices.ContainsFunc(s.runs, isShort)
}

// sum is the total of some seconds. It is reused.
type sum struct {
	total  second
	times  []float64
	counts []float64 // by index into times
	count  float64
}

func newSum(s *series) *sum { return &sum{times: s.times, counts: make([]float64, len(s.times))} }

func (s *sum) reset() {
	clear(s.counts)
	s.total, s.count = second{}, 0
}

func (s *sum) add(x *second) {
	s.total.length += x.length
	s.total.requests += x.requests
	s.total.ended += x.ended
	s.total.errors += x.errors
	for _, b := range x.bins {
		s.counts[b.time] += b.count
		s.count += b.count
	}
}

func (s *sum) rate() float64       { return s.total.requests / s.total.length }
func (s *sum) errorShare() float64 { return s.total.errors / s.total.ended }

func (s *sum) mean() float64 {
	total := 0.0
	for i, n := range s.counts {
		total += n * s.times[i]
	}
	return total / s.count
}

// quantile returns the latency that a share q of requests did not exceed. It interpolates between
// the histogram's steps, which would otherwise hide or create small differences.
func (s *sum) quantile(q float64) float64 {
	want, below := q*s.count, 0.0
	for i, n := range s.counts {
		if n > 0 && below+n >= want {
			before := s.times[i]
			if i > 0 {
				before = s.times[i-1]
			}
			return before + (s.times[i]-before)*(want-below)/n
		}
		below += n
	}
	return math.NaN()
}
