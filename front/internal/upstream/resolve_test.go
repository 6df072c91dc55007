package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Names are resolved again. The state of remaining addresses is kept, and new ones get requests.
func TestNamesAreResolvedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		known := []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1"),
			netip.MustParseAddr("::ffff:10.0.0.1")}
		var broken error
		lookup := func(_ context.Context, host string) ([]netip.Addr, time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			if host != "app.example" {
				return nil, 0, errors.New("unknown")
			}
			return slices.Clone(known), 0, broken
		}
		change := func(err error, addrs ...string) {
			mu.Lock()
			known, broken = nil, err
			for _, a := range addrs {
				known = append(known, netip.MustParseAddr(a))
			}
			mu.Unlock()
			time.Sleep(lookupEvery + time.Second)
			synctest.Wait()
		}
		g := group(t, conf.Upstream{Servers: []conf.Server{{Addr: "app.example:8080", FailTimeout: time.Hour}}},
			new(State), lookup)
		all := func() (tried []string) {
			turn := g.Turn("", netip.Addr{})
			for {
				addr, err := turn.Next()
				if err != nil {
					slices.Sort(tried)
					return tried
				}
				tried = append(tried, addr)
				turn.Done(addr == "10.0.0.1:8080")
			}
		}
		check(t, "at load", all(), "10.0.0.1:8080 10.0.0.2:8080")
		change(nil, "10.0.0.1", "10.0.0.3")
		check(t, "1 still rests", all(), "10.0.0.3:8080")
		change(errors.New("no DNS"))
		check(t, "nothing is known", all(), "10.0.0.3:8080")
		change(nil)
		check(t, "no server responds", all(), "10.0.0.3:8080")
		change(nil, "10.0.0.2")
		check(t, "one is alone", all(), "10.0.0.2:8080")
		change(nil, "10.0.0.1", "10.0.0.2")
		check(t, "a server that returns has no failures", all(), "10.0.0.1:8080 10.0.0.2:8080")
		testkit.Fails(New(conf.Upstream{Servers: []conf.Server{{Addr: "other.example"}}}, new(State),
			Options{system: lookup, Report: func(name string, _ bool, err error) {
				t.Errorf("%s is reported, too: %v", name, err)
			}}))(t, `"other.example"`)
	})
}

func TestAddressesAreParsed(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": "127.0.0.1:80", "127.0.0.1:8080": "127.0.0.1:8080", "[::1]:81": "[::1]:81", "[::1]": "[::1]:80",
		"unix:/run/app.sock": "/run/app.sock", "unix:/run/app.sock:": "/run/app.sock",
		"": "", "unix:app": "", "127.0.0.1:http": "", "127.0.0.1:0": "", "127.0.0.1:99999": "", "a b:80": "",
		"http://x": "", "::1": "", "[a]:80": "", "a]:80": "", "a:80:80": "", "[::1": "", "a:": "", "a:+80": "",
	} {
		g, err := New(conf.Upstream{Servers: []conf.Server{{Addr: addr}}}, new(State),
			Options{system: func(context.Context, string) ([]netip.Addr, time.Duration, error) {
				return nil, 0, errors.New("no")
			}})
		if want == "" {
			testkit.Error(t, err, "", addr)
			continue
		}
		testkit.Must(t, err)
		turn := g.Turn("", netip.Addr{})
		got, _ := turn.Next()
		testkit.Equal(t, got, want, addr)
		g.Close()
	}
}

// A request that began before a change of addresses still gets the backups.
func TestBackupIsTriedAfterChangeOfAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes int // the goroutine that resolves names sleeps while this is read
		lookup := func(context.Context, string) ([]netip.Addr, time.Duration, error) {
			changes++
			return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(changes)})}, 0, nil
		}
		c := conf.Upstream{Servers: []conf.Server{{Addr: "app.example:1"}, {Addr: "127.0.0.1:2", Backup: true}}}
		g := group(t, c, new(State), lookup)
		turn := g.Turn("", netip.Addr{})
		for i, want := range []string{"10.0.0.1:1", "127.0.0.1:2"} {
			testkit.Equal(t, testkit.Value(turn.Next())(t), want, "attempt", i)
			time.Sleep(lookupEvery + time.Second)
			synctest.Wait()
			testkit.Equal(t, turn.More(), i == 0, "more after", i+1)
			turn.Done(true)
		}
		testkit.Fails(turn.Next())(t, ErrNone.Error())
	})
}

// A server with Resolve is followed by its TTL. After a failed connection it is resolved at once.
func TestServerWithResolveFollowsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		address, ttl, lookups := "", 10*time.Second, 0
		var broken error
		lookup := func(context.Context, string) ([]netip.Addr, time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			if lookups++; broken != nil || address == "" {
				return nil, 0, broken
			}
			return []netip.Addr{netip.MustParseAddr(address)}, ttl, nil
		}
		set := func(a string, d time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			address, ttl, broken, lookups = a, d, err, 0
		}
		var reports []string
		s := new(State)
		c := conf.Upstream{Servers: []conf.Server{{Addr: "app.example:1", Resolve: true}}}
		o := Options{Lookup: lookup, Report: func(_ string, hasAddresses bool, err error) {
			reports = append(reports, fmt.Sprint(hasAddresses, " ", err))
		}}
		g := testkit.Value(New(c, s, o))(t)
		first := func() string {
			turn := g.Turn("", netip.Addr{})
			addr, err := turn.Next()
			if err != nil {
				return "none"
			}
			turn.Done(false)
			return addr
		}
		expect := func(what, want string) {
			t.Helper()
			testkit.Equal(t, first(), want, what)
		}
		g.Await(t.Context())
		expect("a name without addresses", "none")
		set("10.0.0.1", 10*time.Second, nil)
		pass(2 * time.Second)
		expect("it has one", "10.0.0.1:1")
		set("10.0.0.2", 0, nil)
		pass(8 * time.Second)
		expect("before the TTL ends", "10.0.0.1:1")
		pass(2 * time.Second)
		expect("after it", "10.0.0.2:1")
		set("10.0.0.2", 0, nil)
		pass(10 * time.Second)
		testkit.Between(t, lookups, 9, 11, "lookups in 10 seconds with a TTL of 0")
		set("", 0, errors.New("SERVFAIL"))
		pass(time.Minute)
		testkit.Between(t, lookups, 8, 12, "lookups in a minute of failures")
		expect("while DNS fails", "10.0.0.2:1")
		set("10.0.0.3", time.Hour, nil)
		pass(10 * time.Second)
		expect("after that", "10.0.0.3:1")

		set("10.0.0.4", time.Hour, nil)
		turn := g.Turn("", netip.Addr{})
		for _, want := range []string{"10.0.0.3:1", "10.0.0.4:1"} {
			addr, err := turn.Next()
			if errors.Is(err, ErrNone) && turn.Refresh(t.Context()) {
				addr, err = turn.Next()
			}
			testkit.Check(t, err)
			testkit.Equal(t, addr, want)
			turn.Done(true)
		}
		if _, err := turn.Next(); !errors.Is(err, ErrNone) || turn.Refresh(t.Context()) {
			t.Errorf("an address is tried twice: %v", err)
		}
		if got := strings.Join(reports, ", "); !strings.HasPrefix(got, "false ") ||
			!strings.HasSuffix(got, "true SERVFAIL, true <nil>") || len(reports) != 4 {
			t.Errorf("reported: %s", got) // the name without addresses, and DNS that fails
		}
		set("", 0, errors.New("SERVFAIL"))
		c.Servers = []conf.Server{{Addr: "app.example:2", Resolve: true}}
		reloaded := testkit.Value(New(c, s, o))(t) // it has the addresses of the old one
		g.Close()
		g = reloaded
		expect("after a reload with another port", "10.0.0.4:2")
		g.Close()
		testkit.Equal(t, len(s.names)+len(s.known), 0, "what remains")
	})
}

// A Resolver's Timeout limits the interval of lookups after failures: as in nginx, an address that
// changed while DNS failed is known soon after that, also after a reload.
func TestFailureIntervalIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for interval, want := range map[time.Duration]int{time.Millisecond: 60, 3 * time.Second: 21, 0: 10,
			time.Minute: 10} {
			lookups := 0
			o := Options{FailureInterval: interval, Lookup: func(context.Context, string) ([]netip.Addr, time.Duration,
				error) {
				lookups++
				return nil, 0, errors.New("SERVFAIL")
			}}
			c := conf.Upstream{Servers: []conf.Server{{Addr: "app.example:1", Resolve: true}}}
			g := testkit.Value(New(c, new(State), o))(t)
			pass(time.Minute - time.Millisecond)
			testkit.Equal(t, lookups, want, "lookups in a minute with", interval)
			g.Close()
		}
	})
}

// A group on demand resolves its name in Renew. While a lookup hangs, old addresses stay in use
// without a wait for each request.
func TestGroupOnDemandResolvesInRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, lookups := false, atomic.Int64{}
		o := Options{OnDemand: true, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, time.Duration, error) {
			if lookups.Add(1); hangs {
				<-ctx.Done()
				return nil, 0, ctx.Err()
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, 5 * time.Second, nil
		}}
		c := conf.Upstream{Servers: []conf.Server{{Addr: "app.example:1", Resolve: true}}}
		g := testkit.Value(New(c, new(State), o))(t)
		defer g.Close()
		testkit.Equal(t, lookups.Load(), 0, "lookups by New")
		for range 3 {
			testkit.Must(t, g.Renew(t.Context()))
			testkit.Equal(t, lookups.Load(), 1, "lookups")
		}
		time.Sleep(6 * time.Second)
		testkit.Check(t, g.Renew(t.Context()))
		testkit.Equal(t, lookups.Load(), 2, "lookups after the TTL")
		time.Sleep(6 * time.Second)
		hangs = true
		began := time.Now()
		for range 100 {
			testkit.Must(t, g.Renew(t.Context()))
			time.Sleep(time.Millisecond)
		}
		testkit.Between(t, time.Since(began), 0, refreshTime+200*time.Millisecond, "the wait")
		testkit.Equal(t, lookups.Load(), 3, "lookups while one hangs")
		check(t, "with old addresses", tryAll(g, "1"), "1")
	})
}

// Equal records of DNS are several servers, as in nginx. Those that are unavailable count as not
// tried; a server that is down does not.
func TestEqualRecordsAreServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ip := netip.MustParseAddr("10.0.0.1")
		g, err := New(conf.Upstream{Servers: []conf.Server{{Addr: "a.example:1", Resolve: true, FailTimeout: time.Hour},
			{Addr: "10.0.0.2:1", Down: true}}}, new(State), Options{
			Lookup: func(context.Context, string) ([]netip.Addr, time.Duration, error) {
				return []netip.Addr{ip, ip}, time.Hour, nil
			}})
		testkit.Must(t, err)
		defer g.Close()
		g.Await(t.Context())
		turn := g.Turn("", netip.Addr{})
		for tried := range 2 {
			if addr, err := turn.Next(); addr != "10.0.0.1:1" || err != nil || !turn.HasUntried(tried) {
				t.Errorf("tried %q, %v", addr, err)
			}
			turn.Done(true)
		}
		if addr, err := turn.Next(); !errors.Is(err, ErrNone) || turn.HasUntried(2) {
			t.Errorf("a third server: %q", addr)
		}
		turn = g.Turn("", netip.Addr{})
		if addr, err := turn.Next(); !errors.Is(err, ErrNone) || !turn.HasUntried(0) {
			t.Errorf("both rest: %q", addr)
		}
	})
}

// If all servers of a group on demand rest after failures, requests try them nevertheless.
func TestRestingServersOnDemandAreTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(conf.Upstream{Servers: []conf.Server{{Addr: "a.example:1", Resolve: true}}}, new(State), Options{
			OnDemand: true,
			Lookup: func(context.Context, string) ([]netip.Addr, time.Duration, error) {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, time.Hour, nil
			}})
		testkit.Must(t, err)
		defer g.Close()
		testkit.Must(t, g.Renew(t.Context()))
		both := []string{"10.0.0.1:1", "10.0.0.2:1"}
		fail := func() []string {
			turn, tried := g.Turn("", netip.Addr{}), []string(nil)
			for {
				addr, err := turn.Next()
				if err != nil {
					return tried
				}
				tried = append(tried, addr)
				testkit.Equal(t, turn.More(), len(tried) < 2, "More after", tried)
				turn.Done(true)
			}
		}
		for range 3 {
			tried := fail()
			slices.Sort(tried)
			testkit.Equal(t, tried, both, "servers that are tried")
		}
	})
}

// Groups whose DNS server is silent delay the start once, not each of them, and a reload with known
// addresses not at all.
func TestGroupsWaitForNamesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		isSilent := true
		o := Options{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, time.Duration, error) {
			if isSilent {
				<-ctx.Done()
				return nil, 0, ctx.Err()
			}
			time.Sleep(300 * time.Millisecond)
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, time.Hour, nil
		}}
		s := new(State)
		open := func(limit time.Duration) (all []*Group, took time.Duration) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for i := range 20 {
				g, err := New(conf.Upstream{Servers: []conf.Server{{Addr: fmt.Sprintf("s%d.example:1", i),
					Resolve: true}}}, s, o)
				testkit.Must(t, err)
				all = append(all, g)
			}
			for _, g := range all {
				g.Await(ctx)
			}
			return all, time.Since(began)
		}
		silent, took := open(2 * time.Second)
		testkit.Equal(t, took, 2*time.Second, "the delay by silence")
		for _, g := range silent {
			g.Close()
		}
		isSilent = false
		resolved, took := open(2 * time.Second)
		testkit.Equal(t, took, 300*time.Millisecond, "the delay of the start")
		check(t, "resolved", tryAll(resolved[19], "1"), "1")
		isSilent = true
		again, took := open(2 * time.Second)
		testkit.Equal(t, took, 0, "the delay of a reload")
		check(t, "after a reload", tryAll(again[19], "1"), "1")
		for _, g := range append(resolved, again...) {
			g.Close()
		}
	})
}
