package testkit

import "testing"

// NoRace skips the test with the race detector, for a reason such as that it allocates. "make test"
// finds the calls, and runs these tests without it.
func NoRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip("with the race detector: ", why)
	}
}
