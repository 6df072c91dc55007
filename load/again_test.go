package load_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
)

const (
	// brief is for how long load lasts where nothing else is said.
	brief = 200 * time.Millisecond
	// patience is how long a response may take before something hangs.
	patience = 30 * time.Second
	// tries is how often is tried what other processes may spoil by taking the processors. What is
	// wrong with the generator is so each time.
	tries = 12
	// longest is how many times as long the last tries may load.
	longest = 32
)

// again tries until nothing is wrong, and otherwise fails with what was wrong with the last try.
// Each may load twice as long as the one before, if that helps: so many times as long as the first.
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

// some carries out a plan for as long as it takes until a response comes, or an error.
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
