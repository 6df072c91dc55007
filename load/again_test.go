package load_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

const (
	// brief is the default duration of load.
	brief = 200 * time.Millisecond
	// patience is the longest time for a response before the test assumes a hang.
	patience = 30 * time.Second
	// tries is the number of attempts of checks that other processes can spoil by using the CPUs. A
	// defect of the generator fails all of them.
	tries = 12
	// longest is the factor by which the last attempts may extend the load.
	longest = 32
)

// again repeats try until it succeeds and otherwise fails with its last error. try receives a
// factor for the duration, which doubles from attempt to attempt.
func again(t *testing.T, try func(longer time.Duration) error) {
	t.Helper()
	var err error
	for i := range tries {
		if err = try(min(time.Duration(1)<<i, longest)); err == nil {
			return
		}
	}
	t.Error(err)
}

// some runs a plan until it has a response or an error.
func some(t *testing.T, p load.Plan) (r *load.Result) {
	t.Helper()
	again(t, func(longer time.Duration) error {
		once := p
		once.Duration = longer * cmp.Or(p.Duration, brief)
		if r = run(t, once); r.Requests == 0 && r.Errors.Total() == 0 {
			return fmt.Errorf("nothing came in %v", once.Duration)
		}
		return nil
	})
	return r
}
