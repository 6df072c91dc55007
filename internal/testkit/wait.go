package testkit

import (
	"os"
	"testing"
	"time"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WaitFor waits for an event that must happen.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// Slow reports whether tests may take long: "make check-slow" allows that.
func Slow() bool { return os.Getenv("TARE_SLOW") != "" }
