package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/internal/grammar"
)

// The addresses of a name pass through these states:
//
//	unknown   no lookup has succeeded: the server has no addresses
//	valid     until expires; a lookup in advance follows a failed connection: see Turn.Refresh
//	expired   a lookup is due: by the host's timer, or by the next request on demand
//
// A lookup that fails changes no addresses; expires becomes the time of the next one. There is at
// most one lookup of a name at a time, which everything that needs it waits for.
const (
	// lookupEvery is the interval of resolving names without Resolve.
	lookupEvery = 30 * time.Second
	// systemValid is how long addresses without a TTL are valid, as those of the system's resolver.
	systemValid = 5 * time.Second
	// minLookupInterval is the minimum interval of lookups of a name: also of those with a TTL of
	// 0, and after failures. maxFailureInterval is the maximum interval after failures.
	minLookupInterval  = time.Second
	maxFailureInterval = 8 * time.Second
	// lookupTime limits lookups by the system, and those of names without Resolve.
	lookupTime = 5 * time.Second
	// refreshInterval is the minimum interval of lookups of a name.
	refreshInterval = 100 * time.Millisecond
	// refreshTime is how long a request waits for a lookup while old addresses are known.
	refreshTime = time.Second
	// maxStartLookups limits the lookups of New at the same time.
	maxStartLookups = 16
	// defaultPort is the port of servers without one.
	defaultPort = "80"
)

// Options are what a Group needs beyond its Config.
type Options struct {
	// Lookup resolves names with Resolve. Nil is the system's resolver.
	Lookup Lookup
	// FailureInterval is the maximum interval of lookups after failures, from 1 to 8 s; 0 is 8 s.
	FailureInterval time.Duration
	// OnDemand resolves names with Resolve only in Renew.
	OnDemand bool
	// Report is called if a name cannot be resolved any more, and with nil when it can be again. It is
	// not called for an error of New. hasAddresses reports whether addresses of before stay in use.
	Report func(name string, hasAddresses bool, err error)

	system Lookup // resolves other names; replaced in tests
}

// Lookup returns the addresses of a name, and how long they are valid: less than 0 if that is
// unknown.
type Lookup func(ctx context.Context, host string) (addresses []netip.Addr, valid time.Duration, err error)

// SystemLookup is the Lookup of the system's resolver, which reports no TTL.
func SystemLookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return ips, -1, err
}

// names holds the addresses of a group's servers.
type names struct {
	group   *Group
	options Options
	hosts   []host
	follows bool // there are names with Resolve

	context context.Context // of lookups
	stop    context.CancelFunc
	running sync.WaitGroup // lookups

	mu       sync.Mutex // guards isClosed, and what changes in hosts
	isClosed bool
}

// host is a server's configured address, and its resolved addresses.
type host struct {
	name, port string // "" if there is nothing to resolve
	follows    bool   // the server has Resolve

	addresses []string
	known     *[]netip.Addr // of the State; nil without Resolve
	wasKnown  bool          // an earlier configuration has resolved it
	expires   time.Time
	timer     *time.Timer   // starts a lookup when they expire; nil without one
	began     time.Time     // of the last lookup
	lookup    *lookup       // in progress, or nil
	failures  time.Duration // the interval since failures began, or 0
}

// lookup is a lookup in progress.
type lookup struct {
	done chan struct{}
	err  error // set when done is closed
}

// await waits for the result of a lookup, or until ctx ends. l is nil if none was started: the group
// is closed, or the caller does not need the error.
func (l *lookup) await(ctx context.Context) error {
	if l == nil {
		return errors.New("the group is closed")
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin parses addresses and resolves names without Resolve.
func (n *names) begin(g *Group, o Options) error {
	if o.Lookup == nil {
		o.Lookup = SystemLookup
	}
	if o.system == nil {
		o.system = SystemLookup
	}
	if o.Report == nil {
		o.Report = func(string, bool, error) {}
	}
	o.FailureInterval = max(min(cmp.Or(o.FailureInterval, maxFailureInterval), maxFailureInterval), minLookupInterval)
	n.group, n.options = g, o
	n.context, n.stop = context.WithCancel(context.Background())
	hosts := make([]host, len(g.config.Servers))
	for i := range g.config.Servers {
		h := &hosts[i]
		if err := h.parse(g.config.Servers[i].Addr); err != nil {
			return err
		}
		h.follows = h.name != "" && g.config.Servers[i].Resolve
		n.follows = n.follows || h.follows
	}
	n.hosts = hosts
	g.state.mu.Lock()
	for i := range hosts {
		if h := &hosts[i]; h.follows {
			h.known = g.state.names.acquire(h.name)
			h.addresses, h.wasKnown = h.withPort(*h.known), *h.known != nil
		}
	}
	g.state.mu.Unlock()
	return n.start()
}

// start looks up the first addresses of names without Resolve.
func (n *names) start() error {
	slots := make(chan struct{}, maxStartLookups)
	errs := make([]error, len(n.hosts))
	var all sync.WaitGroup
	for i := range n.hosts {
		h := &n.hosts[i]
		if h.name == "" || h.follows {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var ips []netip.Addr
			ips, _, errs[i] = n.find(h)
			h.addresses, h.expires = h.withPort(ips), time.Now().Add(lookupEvery)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("host not found in server %q: %w", n.group.config.Servers[i].Addr, err)
		}
	}
	return nil
}

// Await waits until the names with Resolve that no earlier configuration has resolved have been
// looked up once, or until ctx ends.
func (g *Group) Await(ctx context.Context) {
	n := &g.names
	for i := range n.hosts {
		if h := &n.hosts[i]; h.follows && !h.wasKnown {
			_ = n.startLookup(i, true).await(ctx)
		}
	}
}

// watch starts the timers of names. Those with Resolve expire at once.
func (n *names) watch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.hosts {
		if h := &n.hosts[i]; h.name != "" && (!h.follows || !n.options.OnDemand) {
			h.timer = time.AfterFunc(time.Until(h.expires), func() { n.startLookup(i, true) })
		}
	}
}

// startLookup starts a lookup, unless there is one. It returns nil after end, and with ifExpired
// while the addresses are valid: a failed connection may have caused a lookup.
func (n *names) startLookup(i int, ifExpired bool) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &n.hosts[i]
	switch {
	case n.isClosed:
		return nil
	case h.lookup != nil:
		return h.lookup
	case ifExpired && time.Now().Before(h.expires):
		return nil
	}
	l := &lookup{done: make(chan struct{})}
	wait := max(0, time.Until(h.began.Add(refreshInterval)))
	h.lookup, h.began = l, time.Now().Add(wait)
	n.running.Go(func() {
		defer close(l.done)
		select {
		case <-time.After(wait):
		case <-n.context.Done():
		}
		ips, valid, err := n.find(h)
		l.err = n.finish(i, ips, valid, err)
		n.mu.Lock()
		defer n.mu.Unlock()
		if h.lookup = nil; h.timer != nil && !n.isClosed {
			h.timer.Reset(time.Until(h.expires))
		}
	})
	return l
}

func (n *names) find(h *host) ([]netip.Addr, time.Duration, error) {
	find := n.options.system
	if h.follows {
		find = n.options.Lookup
	}
	ips, valid, err := find(n.context, h.name)
	if err == nil && len(ips) == 0 {
		err = &net.DNSError{Err: "no such host", Name: h.name, IsNotFound: true}
	}
	if err != nil {
		return nil, 0, err
	}
	ips = slices.Clone(ips)
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	slices.SortFunc(ips, netip.Addr.Compare) // DNS servers rotate them
	// /etc/hosts may have a name twice. Two equal records of DNS are two servers, as in nginx.
	if !h.follows {
		ips = slices.Compact(ips)
	}
	return ips[:min(len(ips), maxAddresses)], valid, nil
}

// withPort returns the addresses of the host with its port.
func (h *host) withPort(ips []netip.Addr) (all []string) {
	for _, ip := range ips {
		all = append(all, net.JoinHostPort(ip.String(), h.port))
	}
	return all
}

// finish applies the result of a lookup.
func (n *names) finish(i int, ips []netip.Addr, valid time.Duration, err error) error {
	h := &n.hosts[i]
	addresses := h.withPort(ips)
	n.mu.Lock()
	hasFailed, hasAddresses, changed := h.failures > 0, len(h.addresses) > 0, false
	if err != nil {
		h.failures = min(max(2*h.failures, minLookupInterval), n.options.FailureInterval)
		h.expires = time.Now().Add(h.failures)
	} else {
		changed = !slices.Equal(addresses, h.addresses)
		h.addresses, h.failures = addresses, 0
		switch {
		case !h.follows:
			valid = lookupEvery
		case valid < 0:
			valid = systemValid
		}
		h.expires = time.Now().Add(max(valid, minLookupInterval))
	}
	n.mu.Unlock()
	switch {
	case n.context.Err() != nil:
		return err
	case err != nil && !hasFailed, err == nil && hasFailed:
		n.options.Report(h.name, hasAddresses, err)
	}
	if !changed {
		return err
	}
	if h.follows {
		n.group.state.mu.Lock()
		*h.known = ips
		n.group.state.mu.Unlock()
	}
	if err := n.group.rebuild(); err != nil { // too many addresses: the old ones stay
		n.options.Report(h.name, true, err)
	}
	return nil
}

// refresh resolves names with Resolve and waits for that. Lookups that have begun just now do not
// count: a server may have moved since.
func (n *names) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	var all []*lookup
	for i := range n.hosts {
		if n.hosts[i].follows {
			all = append(all, n.startLookup(i, false))
		}
	}
	for _, l := range all {
		_ = l.await(ctx)
	}
}

// Renew makes sure that the names of a group on demand are resolved. If they have expired, it
// resolves them. It waits for that, but only briefly if old addresses are known. It fails if there
// are no addresses.
func (g *Group) Renew(ctx context.Context) error {
	n := &g.names
	for i := range n.hosts {
		h := &n.hosts[i]
		if !h.follows {
			continue
		}
		n.mu.Lock()
		known, isDue := len(h.addresses) > 0, time.Until(h.expires) <= 0
		isLate := h.lookup != nil && time.Since(h.began) > refreshTime
		n.mu.Unlock()
		switch {
		case !known:
			if err := n.startLookup(i, false).await(ctx); err != nil {
				return err
			}
		case isDue && !isLate:
			brief, cancel := context.WithTimeout(ctx, refreshTime)
			_ = n.startLookup(i, false).await(brief)
			cancel()
		}
	}
	return nil
}

func (n *names) addresses(i int) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[i].addresses
}

// end ends all lookups and timers, and waits for them. It returns false if they have ended before.
func (n *names) end() bool {
	n.mu.Lock()
	wasClosed := n.isClosed
	n.isClosed = true
	for i := range n.hosts {
		if timer := n.hosts[i].timer; timer != nil {
			timer.Stop()
		}
	}
	n.mu.Unlock()
	n.stop()
	n.running.Wait()
	return !wasClosed
}

// release releases the names of the State. The caller holds its mu.
func (n *names) release() {
	for i := range n.hosts {
		if h := &n.hosts[i]; h.follows {
			n.group.state.names.release(h.name)
		}
	}
}

// parse parses HOST:PORT, HOST or unix:PATH.
func (h *host) parse(addr string) error {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		path = strings.TrimSuffix(path, ":")
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("server %q: the path of a unix socket must be absolute", addr)
		}
		h.addresses = []string{path}
		return nil
	}
	name, port := grammar.SplitPort(addr, defaultPort)
	if _, err := grammar.ParsePort(port); err != nil {
		return fmt.Errorf("server %q: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		h.addresses = []string{net.JoinHostPort(ip.String(), port)}
		return nil
	}
	if name == "" || strings.ContainsAny(name, ":/ []") {
		return fmt.Errorf("invalid server %q (must be HOST:PORT, HOST or unix:PATH)", addr)
	}
	h.name, h.port = name, port
	return nil
}
