package testkit

import "testing"

// Tries is the number of attempts of a check that depends on timing and may fail on a busy machine.
// A defect fails all of them.
const Tries = 20

// Try repeats try until it succeeds. If all attempts fail, it reports the error of the last.
func Try(t testing.TB, try func() error) {
	t.Helper()
	err := try()
	for i := 1; err != nil && i < Tries; i++ {
		err = try()
	}
	if err != nil {
		t.Error(err)
	}
}
