package compare

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarehq/tare/load/report"
)

// second is a second of a run, or a few, as it is drawn for the bootstrap.
type second struct {
	length, requests, errors float64
	bins                     []bin
}

// bin is how many requests took so long; times are numbered, shortest first.
type bin struct {
	time  int32
	count float64
}

// series are the timelines of a side's runs.
type series struct {
	runs  [][]second
	times []float64 // nanoseconds, by their numbers; rising
	known bool      // there are histograms
}

const (
	// mostSeconds bounds how many parts a run's timeline is drawn in. What is longer is
	// put together.
	mostSeconds = 240
	// fewestSeconds is how many there have to be for an interval: with fewer its bounds
	// would be guesses.
	fewestSeconds = 8
)

// newSeries takes the timelines of a side apart. The remark says what they lack.
func newSeries(s Side) (_ *series, remark string) {
	all := &series{known: true}
	numbers := make(map[time.Duration]int32)
	for _, r := range s.Runs {
		seconds, whole := split(r, numbers)
		all.known = all.known && whole
		all.runs = append(all.runs, seconds)
	}
	all.sortTimes(numbers)
	switch {
	case !all.enough():
		remark = fmt.Sprintf("%s is too short for intervals: want %d seconds or more.", s.Name, fewestSeconds)
	case !all.known:
		remark = fmt.Sprintf("%s has no histogram of each second: its latencies have no intervals.", s.Name)
	}
	return all, remark
}

// split returns the seconds of a run, several together if there are many. It numbers the times
// that they have, in any order. Whole is false if a second lacks its histogram.
func split(r *report.Run, numbers map[time.Duration]int32) (seconds []second, whole bool) {
	each := (len(r.Timeline) + mostSeconds - 1) / mostSeconds
	whole = true
	counts := make(map[int32]float64)
	for i, s := range r.Timeline {
		if i%each == 0 {
			seconds = append(seconds, second{})
			clear(counts)
		}
		last := &seconds[len(seconds)-1]
		last.length += r.SecondLength(i)
		last.requests += float64(s.Requests)
		last.errors += float64(s.Errors)
		h, err := s.Latency.Unpack()
		if err != nil || h.Count() != s.Latency.Count || s.Requests > 0 && h.Count() == 0 {
			whole = false
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
	return seconds, whole
}

// sortTimes numbers the times anew, shortest first.
func (s *series) sortTimes(numbers map[time.Duration]int32) {
	rising := make([]time.Duration, 0, len(numbers))
	for d := range numbers {
		rising = append(rising, d)
	}
	slices.Sort(rising)
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

// enough reports whether the runs are long enough for intervals.
func (s *series) enough() bool {
	for _, run := range s.runs {
		if len(run) < fewestSeconds {
			return false
		}
	}
	return len(s.runs) > 0
}

// sum is what some seconds come to together. It is used again and again.
type sum struct {
	second
	times  []float64
	counts []float64 // by the number of the time
	count  float64
}

func newSum(s *series) *sum { return &sum{times: s.times, counts: make([]float64, len(s.times))} }

func (s *sum) reset() {
	clear(s.counts)
	s.second, s.count = second{}, 0
}

func (s *sum) add(x *second) {
	s.length += x.length
	s.requests += x.requests
	s.errors += x.errors
	for _, b := range x.bins {
		s.counts[b.time] += b.count
		s.count += b.count
	}
}

func (s *sum) rate() float64       { return s.requests / s.length }
func (s *sum) errorShare() float64 { return s.errors / (s.requests + s.errors) }

func (s *sum) mean() float64 {
	total := 0.0
	for i, n := range s.counts {
		total += n * s.times[i]
	}
	return total / s.count
}

// quantile returns the time that a share q of requests did not exceed, between the times that
// histograms know: a step of theirs would hide a small difference, or make one.
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
