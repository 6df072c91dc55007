package testkit

import (
	"os"
	"testing"
)

// Long skips the test with -short, for a reason such as that it starts a program. Command and Start
// call it.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: ", why)
	}
}

// NeedSlow skips the test unless tests may take long.
func NeedSlow(t testing.TB) {
	t.Helper()
	if !Slow() {
		t.Skip("it takes long: TARE_SLOW=1 runs it")
	}
}

// NeedRoot skips the test unless root runs it.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can do what it tests")
	}
}

// Missing skips the test because the machine lacks something. On CI, which has all, the test fails.
func Missing(t testing.TB, what ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what...)
	}
	t.Skip(what...)
}
