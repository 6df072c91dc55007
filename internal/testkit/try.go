package testkit

import "testing"

// Tries is how often something is tried that has to be quick, and is not always so on a busy machine. What is wrong with us is
// so each time.
const Tries = 20

// Try has something tried until it succeeds, and fails with what was wrong with the last try.
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
