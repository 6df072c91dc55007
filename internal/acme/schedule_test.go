package acme

import (
	"testing"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/testkit"
)

// The schedule, for a certificate of 90 days.
func TestRenewalTimes(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := period{notBefore: start, notAfter: start.Add(90 * day)}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	timing := Timing{}.withDefaults()
	for _, c := range []struct {
		name     string
		advice   *window
		obtained time.Time
		fraction float64
		want     time.Time
	}{
		{"two thirds", nil, time.Time{}, 0, at(60 * day)},
		{"spread", nil, time.Time{}, 1, at(52*day + 12*time.Hour)},
		{"start of the window", &window{at(20 * day), at(30 * day)}, time.Time{}, 0, at(20 * day)},
		{"a window beyond the end", &window{at(65 * day), at(125 * day)}, time.Time{}, 0.5, at(70 * day)},
		{"within the window", &window{at(20 * day), at(30 * day)}, time.Time{}, 0.5, at(25 * day)},
		{"a window after the end", &window{at(100 * day), at(110 * day)}, time.Time{}, 0, at(75 * day)},
		{"a window in the past", &window{at(-10 * day), at(-9 * day)}, time.Time{}, 0, at(time.Hour)},
		{"a window in the past, just obtained", &window{at(-10 * day), at(-9 * day)}, at(day), 0, at(day + time.Hour)},
		{"a clock that is ahead", nil, at(200 * day), 0, at(200*day + time.Hour)},
	} {
		p.obtained = c.obtained
		testkit.Equal(t, timing.renewalTime(p, c.advice, c.fraction), c.want, c.name)
	}
	short := period{notBefore: start, notAfter: at(time.Minute)} // MinAge is longer than its life
	testkit.Equal(t, timing.renewalTime(short, nil, 0), at(40*time.Second), "a short certificate")
	for _, life := range []time.Duration{-time.Hour, 0, time.Second} { // of a wrong issuer
		testkit.Equal(t, timing.renewalTime(period{start, at(life), start}, nil, 0), at(minInterval), life)
	}
}

// While the machine sleeps the monotonic clock stops, and the wall clock may be set back. An attempt
// is due by the first of the two.
func TestAttemptsAreDueByEitherClock(t *testing.T) {
	now := time.Now()
	at := now.Add(time.Hour)
	// a time.Time has the seconds of the wall clock above 30 bits of nanoseconds
	wall := func(t time.Time, by int64) time.Time {
		*(*int64)(unsafe.Pointer(&t)) += by << 30
		return t
	}
	for name, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"waits": {now, time.Hour}, "slept": {wall(now, 3600), 0}, "set back": {wall(now.Add(time.Hour), -7200), 0},
		"of another process": {now.Round(0).Add(time.Hour), 0},
	} {
		testkit.Equal(t, timeLeft(at, c.now), c.want, name)
	}
}

// The time between attempts doubles up to a limit, which fits the certificate's lifetime, and leaves
// room for several before the end.
func TestBackoffDoubles(t *testing.T) {
	timing := Timing{}.withDefaults()
	within := func(failures int, life, remaining, low, high time.Duration) {
		t.Helper()
		for range 100 {
			got := timing.backoff(failures, life, remaining)
			testkit.Between(t, got, low, high, "after", failures, "failures with", remaining, "of", life)
		}
	}
	const long = 90 * 24 * time.Hour
	within(1, 0, 0, 45*time.Second, time.Minute)
	within(4, long, 0, 6*time.Minute, 8*time.Minute)
	within(1000, long, 0, 270*time.Minute, 6*time.Hour)
	within(1000, long, 4*time.Hour, 45*time.Minute, time.Hour)
	within(1000, time.Hour, 0, 112*time.Second, 150*time.Second)
	within(1000, time.Hour, time.Second, 45*time.Second, time.Minute)
}

// A certificate's place in the spread does not change, and those of several differ.
func TestFractionsAreSpread(t *testing.T) {
	seen := make(map[float64]bool)
	for i := range 100 {
		f := fractionOf([]byte{byte(i)})
		if f < 0 || f > 1 || f != fractionOf([]byte{byte(i)}) {
			t.Errorf("fraction %v", f)
		}
		seen[f] = true
	}
	testkit.Equal(t, len(seen), 100, "different fractions")
}

func TestRetryAfterIsParsed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for field, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "-1": 0, "x": 0, "Thu, 01 Jan 2026 01:00:00 GMT": time.Hour,
		"Wed, 31 Dec 2025 01:00:00 GMT": 0, "99999999": maxRetryAfter,
	} {
		testkit.Equal(t, retryAfter(field, now), want, field)
	}
}
