package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// probes are the results of probes, by port, and what was reported.
type probes struct {
	mu       sync.Mutex
	bad      map[string]bool
	counts   map[string]int
	reported []string
}

func newProbes() *probes { return &probes{bad: make(map[string]bool), counts: make(map[string]int)} }

func (p *probes) set(server string, bad bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad[server] = bad
}

func (p *probes) config() CheckConfig {
	return CheckConfig{
		Key: "k", Interval: 5 * time.Second, Fails: 2, Passes: 2,
		Probe: func(_ context.Context, addr string) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.counts[port(addr)]++; p.bad[port(addr)] {
				return errors.New("bad")
			}
			return nil
		},
		Report: func(addr string, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reported = append(p.reported, port(addr)+map[bool]string{true: " good", false: " bad"}[err == nil])
		},
	}
}

// start begins and starts a check.
func start(g *Group, config CheckConfig) *Check {
	c := g.NewCheck(config)
	c.Begin()
	c.Start()
	return c
}

// several returns the servers that some requests try, all of which succeed.
func several(g *Group) (tried []string) {
	for range 6 {
		tried = append(tried, tryAll(g, "1", "2")...)
	}
	return tried
}

// pass waits until the bubble's goroutines are idle, d later.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestCheckEndsAndResumesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group(t, conf.Upstream{Servers: servers("1", "2")}, new(State), nil)
		p := newProbes()
		p.set("1", true)
		c := start(g, p.config())
		pass(time.Second)
		check(t, "after one failure", tryAll(g, "2"), "1 2")
		pass(20 * time.Second) // longer than fail_timeout, which has passed
		for range 3 {
			check(t, "after two failures", tryAll(g, "1", "2"), "2")
		}
		p.set("1", false)
		pass(6 * time.Second)
		check(t, "after one success", tryAll(g, "1", "2"), "2")
		pass(5 * time.Second)
		testkit.Equal(t, slices.Contains(several(g), "1"), true, "tried after two successes")
		testkit.Equal(t, strings.Join(p.reported, ", "), "1 bad, 1 good", "the reports")
		status := g.Status()[0]
		if status.Checks != int64(p.counts["1"]) || status.FailedChecks == 0 || status.Failed {
			t.Errorf("%+v after %d probes", status, p.counts["1"])
		}
		c.Stop()
		before := p.counts["1"]
		if pass(time.Hour); p.counts["1"] != before || len(g.state.checks) != 0 {
			t.Error("the check did not stop")
		}
	})
}

// The only server of a group is not exempt, and a group whose check was stopped is as before.
func TestSingleServerIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := group(t, conf.Upstream{Servers: servers("1")}, new(State), nil), newProbes()
		p.set("1", true)
		c := start(g, p.config())
		pass(time.Minute)
		check(t, "it has failed", tryAll(g, "1"), "none")
		c.Stop()
		check(t, "without check", tryAll(g, "1"), "1")
	})
}

func TestMandatoryCheckPrecedesRequests(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, p := new(State), newProbes()
			config := p.config()
			config.Mandatory, config.Persistent = true, persistent
			probe := config.Probe
			config.Probe = func(ctx context.Context, addr string) error {
				time.Sleep(time.Millisecond) // it ends while the test waits, and not before
				return probe(ctx, addr)
			}
			g := group(t, conf.Upstream{Servers: servers("1")}, s, nil)
			c := start(g, config)
			check(t, "before the first check", tryAll(g, "1"), "none")
			pass(time.Second)
			check(t, "after it", tryAll(g, "1"), "1")

			reloaded := group(t, conf.Upstream{Servers: servers("1", "2")}, s, nil)
			next := reloaded.NewCheck(config)
			next.Begin() // the earlier configuration is still in use
			want := "none"
			if persistent {
				want = "1"
			}
			check(t, "after a reload", tryAll(reloaded, "1"), want)
			s.mu.Lock()
			c.findServers() // as before each of its probes
			s.mu.Unlock()
			check(t, "after the earlier check's", tryAll(reloaded, "1"), want)
			c.Stop()
			next.Start()
			check(t, "before the first probe", tryAll(reloaded, "1"), want)
			pass(time.Minute)
			check(t, "after checks of both", slices.Compact(slices.Sorted(slices.Values(several(reloaded)))), "1 2")
			next.Stop()
			testkit.Equal(t, len(s.bad)+len(s.checks), 0, "what remains")
		})
	}
}

// Addresses that a name gets are checked, those that it loses no longer. Probes that hang delay no
// others, and end with the check.
func TestCheckFollowsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := &records{addresses: []string{"10.0.0.1"}, ttl: time.Second}
		var mu sync.Mutex
		counts := make(map[string]int)
		g := testkit.Value(New(resolving("app.example:1"), new(State), Options{Lookup: dns.lookup}))(t)
		defer g.Close()
		c := start(g, CheckConfig{Interval: time.Second, Fails: 1, Passes: 1, Report: func(string, error) {},
			Probe: func(ctx context.Context, addr string) error {
				mu.Lock()
				counts[addr]++
				mu.Unlock()
				if addr == "10.0.0.1:1" {
					<-ctx.Done()
				}
				return ctx.Err()
			}})
		pass(time.Minute)
		dns.set(time.Second, nil, "10.0.0.2")
		pass(time.Minute)
		mu.Lock()
		testkit.Equal(t, counts["10.0.0.1:1"], 1, "probes of the old address")
		testkit.Between(t, counts["10.0.0.2:1"], 50, 100, "probes of the new one")
		mu.Unlock()
		c.Stop()
	})
}
