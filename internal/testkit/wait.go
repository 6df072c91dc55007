package testkit

import (
	"io"
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

// Check reports err if it is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Send writes to a connection, or to another writer, and ends the test if that fails.
func Send[S string | []byte](t testing.TB, to io.Writer, s S) {
	t.Helper()
	_, err := to.Write([]byte(s))
	Must(t, err)
}

// Value returns the result of a call, and ends the test if its error is not nil:
//
//	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
func Value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// WaitFor waits for an event that must happen.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// Receive returns the next value of a channel, or none if it is closed. The words of what name the
// value, which must arrive.
func Receive[T any](t testing.TB, from <-chan T, what ...any) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%snothing arrives", named(what))
		panic("unreachable")
	}
}

// Slow reports whether tests may take long: "make check-slow" allows that.
func Slow() bool { return os.Getenv("TARE_SLOW") != "" }
