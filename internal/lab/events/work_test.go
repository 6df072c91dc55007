package events

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

// A disturbed case is carried out again, a few times at most, and the least disturbed one counts.
func TestDisturbedCasesAreRepeated(t *testing.T) {
	const timeout = time.Second
	failure := errors.New("interrupted")
	for _, test := range []struct {
		late    []int // milliseconds, of one try after the other
		err     error // of the last one
		want    int
		reports int
	}{
		{[]int{20}, nil, 20, 0},
		{[]int{900, 30}, nil, 30, 1},
		{[]int{900, 300, 400}, nil, 300, 3},
		{[]int{300, 900}, failure, 900, 1},
	} {
		left, reports := slices.Clone(test.late), 0
		got, err := undisturbed(timeout, func() (c sample.Case, err error) {
			var traffic sample.Traffic
			traffic.Add(sample.Request{
				Outcome: sample.Response, Late: time.Duration(left[0]) * time.Millisecond,
			})
			c.Traffic = traffic
			if left = left[1:]; len(left) == 0 {
				err = test.err
			}
			return c, err
		}, func(string) { reports++ })
		if got.Latest() != time.Duration(test.want)*time.Millisecond || !errors.Is(err, test.err) || len(left) > 0 ||
			reports != test.reports {
			t.Errorf("%+v: %v, %v, %d tries left, %d reports", test, got.Latest(), err, len(left), reports)
		}
	}
}

// A step that is due happens, even if those before it took until the end of the case.
func TestLateStepsHappen(t *testing.T) {
	h := &happening{plan: new(Plan), of: &Case{Plan: []Step{{Do: Leave}}}, result: new(sample.Case), crowd: new(crowd),
		started: time.Now()}
	testkit.Must(t, h.follow(t.Context(), 0))
	if len(h.result.Marks) != 1 || len(h.result.Samples) != 2 {
		t.Errorf("%+v", h.result)
	}
}
