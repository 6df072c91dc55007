package upstream

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// share sends requests one after another, and returns how many of them each server got. times are
// those to the head and to the end of a response.
func share(g *Group, n int, times map[string][2]time.Duration) map[string]int {
	counts := make(map[string]int)
	for range n {
		turn := g.Turn("", netip.Addr{})
		addr, err := turn.Next()
		if err != nil {
			return counts
		}
		counts[port(addr)]++
		time.Sleep(times[port(addr)][0])
		turn.HeadReceived()
		time.Sleep(times[port(addr)][1] - times[port(addr)][0])
		turn.Done(false)
	}
	return counts
}

func TestLeastTimeChoosesTheFastest(t *testing.T) {
	times := map[string][2]time.Duration{
		"1": {5 * time.Millisecond, 6 * time.Millisecond}, "2": {2 * time.Millisecond, 90 * time.Millisecond},
		"3": {50 * time.Millisecond, 60 * time.Millisecond},
	}
	for _, test := range []struct {
		balance conf.Balance
		fastest string
		least   int
	}{
		{balance("least_time", "header"), "2", 95}, {balance("least_time", "last_byte"), "1", 95},
		{balance("least_time", "header", "inflight"), "2", 95},
		{balance("random", "two", "least_time=header"), "2", 45},
		{balance("random", "two", "least_time=last_byte"), "1", 45},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := group(t, conf.Upstream{Balance: test.balance, Servers: servers("1", "2", "3")}, new(State), nil)
			if counts := share(g, 100, times); counts[test.fastest] < test.least || len(counts) != 3 {
				t.Errorf("%v: %v, want %s most often", test.balance, counts, test.fastest)
			}
		})
	}
}

// A server that hangs gets few requests with inflight before its first response, and a server that
// was slow gets another chance.
func TestLeastTimeNoticesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := map[string][2]time.Duration{"1": {time.Millisecond, time.Millisecond},
			"2": {time.Millisecond, time.Millisecond}}
		g := group(t, conf.Upstream{Balance: balance("least_time", "header", "inflight"), Servers: servers("1", "2")},
			new(State), nil)
		share(g, 20, fast)
		hanging := g.Turn("", netip.Addr{})
		addr, _ := hanging.Next()
		time.Sleep(time.Second)
		if counts := share(g, 20, fast); counts[port(addr)] > 0 {
			t.Errorf("the server that hangs got requests: %v", counts)
		}
		hanging.HeadReceived()
		hanging.Done(false)
		if counts := share(g, 20, fast); counts[port(addr)] > 0 {
			t.Errorf("the slow server got requests: %v", counts)
		}
		time.Sleep(maxTimeAge)
		if counts := share(g, 20, fast); counts[port(addr)] == 0 {
			t.Errorf("the server is never tried again: %v", counts)
		}
	})
}

// Requests whose start is unknown, because another configuration with one server has begun them, do
// not make a server seem slow.
func TestLeastTimeIgnoresRequestsOfUnknownAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := new(State)
		g := group(t, conf.Upstream{Balance: balance("least_time", "header", "inflight"), Servers: servers("1", "2")},
			state, nil)
		times := map[string][2]time.Duration{"1": {time.Millisecond, time.Millisecond},
			"2": {90 * time.Millisecond, 90 * time.Millisecond}}
		share(g, 10, times)
		single := group(t, conf.Upstream{Servers: servers("1")}, state, nil)
		hanging := single.Turn("", netip.Addr{})
		if _, err := hanging.Next(); err != nil {
			t.Fatal(err)
		}
		if counts := share(g, 40, times); counts["1"] < 35 {
			t.Errorf("%v, want server 1 most often", counts)
		}
		hanging.Done(false)
	})
}
