package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// records are what DNS has for all names.
type records struct {
	mu        sync.Mutex
	addresses []string
	ttl       time.Duration
	err       error
	isSilent  bool // lookups last until their context ends
	lookups   int
}

func (r *records) lookup(ctx context.Context, _ string) (all []netip.Addr, _ time.Duration, _ error) {
	r.mu.Lock()
	r.lookups++
	isSilent, ttl, err := r.isSilent, r.ttl, r.err
	for _, a := range r.addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	if r.mu.Unlock(); isSilent {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return all, ttl, err
}

// queried returns the number of lookups.
func (r *records) queried() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookups
}

// set changes the records, and begins to count lookups anew.
func (r *records) set(ttl time.Duration, err error, addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses, r.ttl, r.err, r.lookups = addresses, ttl, err, 0
}

// resolving returns a group with a server that is resolved again.
func resolving(addr string) conf.Upstream {
	return conf.Upstream{Servers: []conf.Server{{Addr: addr, Resolve: true, FailTimeout: time.Hour}}}
}

// failAll makes attempts until there is no other server, and returns the addresses tried, sorted. An
// attempt fails unless the address is up.
func failAll(g *Group, up ...string) (tried []string) {
	turn := g.Turn("", netip.Addr{})
	for {
		addr, err := turn.Next()
		if err != nil {
			slices.Sort(tried)
			return tried
		}
		tried = append(tried, addr)
		turn.Done(!slices.Contains(up, addr))
	}
}

// Names are resolved again. The state of remaining addresses is kept, and new ones get requests.
func TestNamesAreResolvedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{addresses: []string{"10.0.0.2", "10.0.0.1", "::ffff:10.0.0.1"}}
		change := func(err error, addrs ...string) {
			dns.set(0, err, addrs...)
			pass(lookupEvery + time.Second)
		}
		g := group(t, conf.Upstream{Servers: []conf.Server{{Addr: "app.example:8080", FailTimeout: time.Hour}}},
			new(State), dns.lookup)
		all := func() []string { return failAll(g, "10.0.0.2:8080", "10.0.0.3:8080") }
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
		dns.set(0, errors.New("unknown"))
		testkit.Fails(New(conf.Upstream{Servers: []conf.Server{{Addr: "other.example"}}}, new(State),
			Options{system: dns.lookup, Report: func(name string, _ bool, err error) {
				t.Errorf("%s is reported, too: %v", name, err)
			}}))(t, `"other.example"`)
	})
}

func TestAddressesAreParsed(t *testing.T) {
	dns := &records{err: errors.New("no")}
	for addr, want := range map[string]string{
		"127.0.0.1": "127.0.0.1:80", "127.0.0.1:8080": "127.0.0.1:8080", "[::1]:81": "[::1]:81", "[::1]": "[::1]:80",
		"unix:/run/app.sock": "/run/app.sock", "unix:/run/app.sock:": "/run/app.sock",
		"": "", "unix:app": "", "127.0.0.1:http": "", "127.0.0.1:0": "", "127.0.0.1:99999": "", "a b:80": "",
		"http://x": "", "::1": "", "[a]:80": "", "a]:80": "", "a:80:80": "", "[::1": "", "a:": "", "a:+80": "",
	} {
		g, err := New(conf.Upstream{Servers: []conf.Server{{Addr: addr}}}, new(State), Options{system: dns.lookup})
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
		dns := &records{addresses: []string{"10.0.0.1"}}
		c := conf.Upstream{Servers: []conf.Server{{Addr: "app.example:1"}, {Addr: "127.0.0.1:2", Backup: true}}}
		turn := group(t, c, new(State), dns.lookup).Turn("", netip.Addr{})
		for i, want := range []string{"10.0.0.1:1", "127.0.0.1:2"} {
			testkit.Equal(t, testkit.Value(turn.Next())(t), want, "attempt", i)
			dns.set(0, nil, fmt.Sprint("10.0.0.", i+2))
			pass(lookupEvery + time.Second)
			testkit.Equal(t, turn.More(), i == 0, "more after", i+1)
			turn.Done(true)
		}
		testkit.Fails(turn.Next())(t, ErrNone.Error())
	})
}

// A server with Resolve is followed by its TTL. After a failed connection it is resolved at once.
func TestServerWithResolveFollowsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{ttl: 10 * time.Second}
		var reports []string
		s := new(State)
		o := Options{Lookup: dns.lookup, Report: func(_ string, hasAddresses bool, err error) {
			reports = append(reports, fmt.Sprint(hasAddresses, " ", err))
		}}
		g := testkit.Value(New(resolving("app.example:1"), s, o))(t)
		expect := func(what, want string) {
			t.Helper()
			turn := g.Turn("", netip.Addr{})
			addr, err := turn.Next()
			if err == nil {
				turn.Done(false)
			}
			testkit.Equal(t, addr, want, what)
		}
		g.Await(t.Context())
		expect("a name without addresses", "")
		dns.set(10*time.Second, nil, "10.0.0.1")
		pass(2 * time.Second)
		expect("it has one", "10.0.0.1:1")
		dns.set(0, nil, "10.0.0.2")
		pass(8 * time.Second)
		expect("before the TTL ends", "10.0.0.1:1")
		pass(2 * time.Second)
		expect("after it", "10.0.0.2:1")
		dns.set(0, nil, "10.0.0.2")
		pass(10 * time.Second)
		testkit.Between(t, dns.queried(), 9, 11, "lookups in 10 seconds with a TTL of 0")
		dns.set(0, errors.New("SERVFAIL"))
		pass(time.Minute)
		testkit.Between(t, dns.queried(), 8, 12, "lookups in a minute of failures")
		expect("while DNS fails", "10.0.0.2:1")
		dns.set(time.Hour, nil, "10.0.0.3")
		pass(10 * time.Second)
		expect("after that", "10.0.0.3:1")

		dns.set(time.Hour, nil, "10.0.0.4")
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
		dns.set(0, errors.New("SERVFAIL"))
		reloaded := testkit.Value(New(resolving("app.example:2"), s, o))(t) // it has the addresses of the old one
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
			dns := &records{err: errors.New("SERVFAIL")}
			o := Options{FailureInterval: interval, Lookup: dns.lookup}
			g := testkit.Value(New(resolving("app.example:1"), new(State), o))(t)
			pass(time.Minute - time.Millisecond)
			testkit.Equal(t, dns.queried(), want, "lookups in a minute with", interval)
			g.Close()
		}
	})
}

// A group on demand resolves its name in Renew. While a lookup hangs, old addresses stay in use
// without a wait for each request.
func TestGroupOnDemandResolvesInRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{addresses: []string{"10.0.0.1"}, ttl: 5 * time.Second}
		g := testkit.Value(New(resolving("app.example:1"), new(State), Options{OnDemand: true, Lookup: dns.lookup}))(t)
		defer g.Close()
		testkit.Equal(t, dns.queried(), 0, "lookups by New")
		for range 3 {
			testkit.Must(t, g.Renew(t.Context()))
			testkit.Equal(t, dns.queried(), 1, "lookups")
		}
		time.Sleep(6 * time.Second)
		testkit.Check(t, g.Renew(t.Context()))
		testkit.Equal(t, dns.queried(), 2, "lookups after the TTL")
		time.Sleep(6 * time.Second)
		dns.mu.Lock()
		dns.isSilent = true
		dns.mu.Unlock()
		began := time.Now()
		for range 100 {
			testkit.Must(t, g.Renew(t.Context()))
			time.Sleep(time.Millisecond)
		}
		testkit.Between(t, time.Since(began), 0, refreshTime+200*time.Millisecond, "the wait")
		testkit.Equal(t, dns.queried(), 3, "lookups while one hangs")
		check(t, "with old addresses", tryAll(g, "1"), "1")
	})
}

// Equal records of DNS are several servers, as in nginx. Those that are unavailable count as not
// tried; a server that is down does not.
func TestEqualRecordsAreServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{addresses: []string{"10.0.0.1", "10.0.0.1"}, ttl: time.Hour}
		c := resolving("a.example:1")
		c.Servers = append(c.Servers, conf.Server{Addr: "10.0.0.2:1", Down: true})
		g := testkit.Value(New(c, new(State), Options{Lookup: dns.lookup}))(t)
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
		dns := &records{addresses: []string{"10.0.0.1", "10.0.0.2"}, ttl: time.Hour}
		g := testkit.Value(New(resolving("a.example:1"), new(State), Options{OnDemand: true, Lookup: dns.lookup}))(t)
		defer g.Close()
		testkit.Must(t, g.Renew(t.Context()))
		for range 3 {
			check(t, "all rest", failAll(g), "10.0.0.1:1 10.0.0.2:1")
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
		open := func(want time.Duration, what string) (all []*Group) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			for i := range 20 {
				all = append(all, testkit.Value(New(resolving(fmt.Sprintf("s%d.example:1", i)), s, o))(t))
			}
			for _, g := range all {
				g.Await(ctx)
			}
			testkit.Equal(t, time.Since(began), want, "the delay", what)
			return all
		}
		for _, g := range open(2*time.Second, "by silence") {
			g.Close()
		}
		isSilent = false
		resolved := open(300*time.Millisecond, "of the start")
		check(t, "resolved", tryAll(resolved[19], "1"), "1")
		isSilent = true
		again := open(0, "of a reload")
		check(t, "after a reload", tryAll(again[19], "1"), "1")
		for _, g := range append(resolved, again...) {
			g.Close()
		}
	})
}
