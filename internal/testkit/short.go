package testkit

import "testing"

// Long skips the test with -short, for a reason such as that it starts a program. Command and Start
// call it.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: ", why)
	}
}
