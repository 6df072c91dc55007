package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	defaultTimeout = 30 * time.Second // as in nginx
	// ipv6Wait is how long a lookup that has found IPv4 addresses waits for those of IPv6: some
	// servers never respond to queries for them. ipv4Wait is the reverse. It leaves time to send
	// the query again: if a packet is lost, the name must not lose its IPv4 addresses.
	ipv6Wait = 500 * time.Millisecond
	ipv4Wait = 5 * time.Second
	// partialValid limits how long addresses are valid if the query for IPv4 has failed.
	partialValid = 5 * time.Second
	// maxLookups limits lookups at the same time. Others wait.
	maxLookups = 256
	// maxChain limits the names of a chain of CNAME records that queries follow.
	maxChain = 8
	// maxValid limits how long addresses are valid.
	maxValid = 24 * time.Hour
	maxName  = 253
)

// Config configures a Resolver.
type Config struct {
	Servers        []netip.AddrPort
	Valid          time.Duration // replaces the TTL of records, unless it is 0
	NoIPv4, NoIPv6 bool          // leave out a family
	Timeout        time.Duration // of a lookup, with the time that it waits for others; 0 is 30 s
}

// Resolver resolves names. It is safe for concurrent use.
type Resolver struct {
	config Config
	slots  chan struct{}

	context context.Context
	stop    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // queries
}

// New returns a Resolver, which must be closed.
func New(config Config) (*Resolver, error) {
	switch {
	case len(config.Servers) == 0:
		return nil, errors.New("no DNS servers: Config.Servers needs at least one")
	case config.NoIPv4 && config.NoIPv6:
		return nil, errors.New("both IPv4 and IPv6 are off")
	case config.Timeout < 0 || config.Valid < 0:
		return nil, errors.New("negative Timeout or Valid")
	}
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	r := &Resolver{config: config, slots: make(chan struct{}, maxLookups)}
	r.context, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Close ends all lookups and waits for them.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}

// records is what a query for one family has found.
type records struct {
	family    dnsmessage.Type
	addresses []netip.Addr
	ttl       time.Duration
	err       error
	isPartial bool // of both families: IPv4 is missing
}

// Lookup returns the addresses of a name and how long they are valid. Errors are *net.DNSError;
// with IsNotFound, the servers report that there are no addresses.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	absolute, err := absoluteName(name)
	if err != nil {
		return nil, 0, err
	}
	if r.context.Err() != nil {
		return nil, 0, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	detach := context.AfterFunc(r.context, cancel)
	defer detach()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, &net.DNSError{
			UnwrapErr: ctx.Err(), Err: fmt.Sprintf("%d other lookups are in progress: %v", maxLookups, ctx.Err()),
			Name: name, IsTemporary: true,
		}
	}
	defer func() { <-r.slots }()
	found, err := r.families(ctx, absolute)
	switch {
	case err != nil:
		return nil, 0, err
	case len(found.addresses) > 0:
		if found.ttl = min(found.ttl, maxValid); r.config.Valid > 0 {
			found.ttl = r.config.Valid
		}
		if found.isPartial {
			found.ttl = min(found.ttl, partialValid)
		}
		return found.addresses, found.ttl, nil
	case found.err != nil:
		return nil, 0, &net.DNSError{UnwrapErr: found.err, Err: found.err.Error(), Name: name, IsTemporary: true}
	}
	return nil, 0, notFound(name)
}

func notFound(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// absoluteName returns a name as queries have it.
func absoluteName(name string) (dnsmessage.Name, error) {
	name = strings.TrimSuffix(name, ".")
	isValid := name != "" && len(name) <= maxName
	for label := range strings.SplitSeq(name, ".") {
		isValid = isValid && label != "" && len(label) <= 63
	}
	if !isValid {
		return dnsmessage.Name{}, notFound(name)
	}
	return dnsmessage.NewName(name + ".")
}

// families queries for both families, and joins what they have found.
func (r *Resolver) families(ctx context.Context, name dnsmessage.Name) (all records, err error) {
	var types []dnsmessage.Type
	if !r.config.NoIPv4 {
		types = append(types, dnsmessage.TypeA)
	}
	if !r.config.NoIPv6 {
		types = append(types, dnsmessage.TypeAAAA)
	}
	results := make(chan records, len(types))
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return all, net.ErrClosed
	}
	for _, typ := range types {
		r.running.Go(func() {
			found := r.follow(ctx, name, typ)
			found.family = typ
			results <- found
		})
	}
	r.mu.Unlock()
	return collect(results, records{isPartial: !r.config.NoIPv4}, len(types), time.After), nil
}

// collect adds the results of a number of queries to all. Once there are addresses, it waits for
// the missing ones only for a time, which after measures. What arrives at the end of it counts.
func collect(results <-chan records, all records, missing int, after func(time.Duration) <-chan time.Time) records {
	var late <-chan time.Time
	for ; missing > 0; missing-- {
		var found records
		select {
		case found = <-results:
		case <-late:
			select {
			case found = <-results:
			default:
				return all
			}
		}
		all.join(&found)
		wait := ipv4Wait
		if found.family == dnsmessage.TypeA {
			wait, all.isPartial = ipv6Wait, found.err != nil
		}
		if len(all.addresses) > 0 && late == nil {
			late = after(wait)
		}
	}
	return all
}

// join adds what another query has found. An error counts only if there are no addresses.
func (all *records) join(found *records) {
	switch {
	case found.err != nil:
		all.err = found.err
	case len(all.addresses) == 0:
		all.addresses, all.ttl = found.addresses, found.ttl
	case len(found.addresses) > 0:
		all.addresses, all.ttl = append(all.addresses, found.addresses...), min(all.ttl, found.ttl)
	}
}

// follow queries for a name, and then for the end of its chain of CNAME records, if a server has
// left that to the client.
func (r *Resolver) follow(ctx context.Context, name dnsmessage.Name, typ dnsmessage.Type) (found records) {
	ttl := maxValid
	for range maxChain {
		response, err := r.query(ctx, dnsmessage.Question{Name: name, Type: typ, Class: dnsmessage.ClassINET})
		if err != nil {
			return records{err: err}
		}
		addresses, last, least := response.addresses(name, typ)
		ttl = min(ttl, least)
		if len(addresses) > 0 || equalNames(last, name) {
			return records{addresses: addresses, ttl: ttl}
		}
		name = last
	}
	return records{err: fmt.Errorf("more than %d CNAME records", maxChain)}
}

// equalNames reports whether names are equal, whatever their case.
func equalNames(a, b dnsmessage.Name) bool {
	return strings.EqualFold(string(a.Data[:a.Length]), string(b.Data[:b.Length]))
}
