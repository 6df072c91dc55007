package limit_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/limit"
	"github.com/tarehq/tare/internal/testkit"
)

func rate(t testing.TB, c conf.Zone) *limit.Rate {
	t.Helper()
	return testkit.Value(limit.NewRate(c))(t)
}

// nginx's numbers for "rate=2r/s", "burst=2".
func TestRateIsThatOfNginx(t *testing.T) {
	z, start := rate(t, conf.Zone{Name: "two", Rate: 2}), time.Unix(1_000_000, 0)
	for i, c := range []struct {
		ms     int64
		excess int64
		ok     bool
	}{
		{0, 0, true}, {0, 1000, true}, {0, 2000, true}, {0, 3000, false}, {1, 2998, false},
		{500, 2000, true}, {500, 3000, false}, {1500, 1000, true}, {100_000, 0, true},
		{99_000, 1000, true},  // the clock is a second slow: nothing has leaked
		{30_000, 1998, true},  // by more than a minute: one millisecond has leaked
		{30_000, 2998, false}, // counting continues from there
	} {
		excess, ok := z.Acquire("key", 2*limit.Unit, start.Add(time.Duration(c.ms)*time.Millisecond))
		testkit.Equal(t, excess, c.excess, i, "at", c.ms, "ms")
		testkit.Equal(t, ok, c.ok, i, "at", c.ms, "ms")
	}
	testkit.Equal(t, z.Delay(1500, 500), 500*time.Millisecond, "delay")
	testkit.Equal(t, z.Delay(500, 500), 0, "delay")
}

func TestCheckChangesNothing(t *testing.T) {
	z, now := rate(t, conf.Zone{Rate: 1}), time.Now()
	testkit.Equal(t, z.Check("key", now), 0, "the excess of an unknown key")
	testkit.Equal(t, z.Len(), 0, "keys")
	_, _ = z.Acquire("key", 0, now)
	for range 3 {
		testkit.Equal(t, z.Check("key", now), limit.Unit, "the excess")
	}
}

func TestRatesOutOfRangeAreRejected(t *testing.T) {
	for _, r := range []float64{0, -1, 0.0009, 1e9 + 1, 2e9, math.NaN(), math.Inf(1)} {
		testkit.Fails(limit.NewRate(conf.Zone{Name: "z", Rate: r}))(t, `"z"`, r)
	}
	z := rate(t, conf.Zone{Rate: 1e9})
	_, _ = z.Acquire("key", 0, time.UnixMilli(0))
	excess, ok := z.Acquire("key", 0, time.UnixMilli(1<<60))
	testkit.Equal(t, fmt.Sprint(excess, ok), "0 true", "after a long time")
}

// The number of keys is limited: new ones displace old ones, and the ones in use are kept.
func TestKeysOfRateAreLimited(t *testing.T) {
	z, now := rate(t, conf.Zone{Rate: 1, Bytes: 64 << 10}), time.Now()
	for i := range 100_000 {
		if _, ok := z.Acquire(fmt.Sprintf("key %d", i), 0, now); !ok {
			t.Fatalf("no room for key %d", i)
		}
		if _, ok := z.Acquire("often", 0, now); ok && i > 0 {
			t.Fatalf("after %d keys a used one was removed", i)
		}
	}
	testkit.Between(t, z.Len(), 100, 64<<10/160, "keys in 64 KB")
	_, ok := z.Acquire(strings.Repeat("x", 64<<10), 0, now)
	testkit.Equal(t, ok, false, "a key longer than the table was counted")
}

func TestConnsCountsByKey(t *testing.T) {
	z := limit.NewConns(conf.Zone{})
	for i, want := range []bool{true, true, false} {
		testkit.Equal(t, z.Enter("a", 2), want, "Enter", i+1)
	}
	testkit.Equal(t, z.Enter("b", 1), true, "another key")
	z.Leave("a")
	testkit.Equal(t, z.Enter("a", 2), true, "after Leave")
	for _, key := range []string{"a", "a", "b"} {
		z.Leave(key)
	}
	testkit.Equal(t, z.Len(), 0, "keys without requests")
}

// A key in use is never removed for another.
func TestKeysOfConnsAreLimited(t *testing.T) {
	z, in := limit.NewConns(conf.Zone{Bytes: 32 << 10}), 0
	for i := range 10_000 {
		if z.Enter(fmt.Sprint(i), 1) {
			in++
		}
	}
	testkit.Between(t, in, 1, 32<<10/160, "requests in progress")
	testkit.Equal(t, z.Len(), in, "keys")
}

func TestConcurrentUse(t *testing.T) {
	z, n := rate(t, conf.Zone{Rate: 1, Bytes: 16 << 10}), limit.NewConns(conf.Zone{})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				key := fmt.Sprint(i % 100)
				_, _ = z.Acquire(fmt.Sprint(w, i), 0, time.Now())
				if n.Enter(key, 2) {
					n.Leave(key)
				}
			}
		})
	}
	all.Wait()
	testkit.Equal(t, n.Len(), 0, "keys that remain")
}
