package nginxconf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

const (
	// resolveTime limits the time for resolving all names of a configuration.
	resolveTime = 10 * time.Second
	// localTime limits the time for localhost: without an entry in the hosts file, it must not wait
	// for DNS.
	localTime = time.Second
	// maxAddresses limits the addresses of a name.
	maxAddresses = 64
	// maxName is DNS's limit for a name.
	maxName = 253
)

// lookupFunc resolves a name, as the method LookupNetIP of net.Resolver does.
type lookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// resolver resolves each name once.
type resolver struct {
	lookupNetIP lookupFunc
	until       time.Time // set by the first name
	known       map[string]lookupResult
}

type lookupResult struct {
	addrs []netip.Addr
	err   error
}

func newResolver(lookup lookupFunc) *resolver {
	if lookup == nil {
		lookup = reachable(net.DefaultResolver.LookupNetIP)
	}
	return &resolver{lookupNetIP: lookup, known: make(map[string]lookupResult)}
}

// find returns the addresses of a name, IPv4 first.
func (r *resolver) find(name string) ([]netip.Addr, error) {
	name = strings.ToLower(name)
	found, ok := r.known[name]
	if !ok {
		found.addrs, found.err = r.lookup(name)
		r.known[name] = found
	}
	return found.addrs, found.err
}

func (r *resolver) lookup(name string) ([]netip.Addr, error) {
	if err := checkHost(name); err != nil {
		return nil, err
	}
	if r.until.IsZero() {
		r.until = time.Now().Add(resolveTime)
	}
	until, local := r.until, name == "localhost"
	if local {
		until = time.Now().Add(localTime)
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	found, err := r.lookupNetIP(ctx, "ip", name)
	switch {
	case local && (err != nil || len(found) == 0):
		found = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case err != nil:
		return nil, fmt.Errorf("cannot resolve the name: %w", err)
	case len(found) == 0:
		return nil, errors.New("the name has no addresses")
	}
	addrs := make([]netip.Addr, len(found))
	for i, a := range found {
		addrs[i] = a.Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare) // resolvers rotate them
	if addrs = slices.Compact(addrs); len(addrs) > maxAddresses {
		return nil, fmt.Errorf("the name has %d addresses (maximum: %d)", len(addrs), maxAddresses)
	}
	return addrs, nil
}

// checkHost rejects what no resolver can resolve. A name that ends in a number is a malformed
// address.
func checkHost(name string) error {
	if i := strings.IndexFunc(name, func(r rune) bool {
		return !strings.ContainsRune(
			"abcdefghijklmnopqrstuvwxyz0123456789-_.", r)
	}); i >= 0 || name == "" || len(name) > maxName {
		return errors.New("invalid host (must be an IP address, a name, * or unix:PATH)")
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; last != "" && strings.Trim(last, "0123456789") == "" {
		return errors.New("neither an IP address nor a name")
	}
	return nil
}

// reachable leaves out IPv6 addresses on machines without IPv6, as getaddrinfo does for nginx.
// Hosts files list ::1 even there.
func reachable(lookup lookupFunc) lookupFunc {
	return func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		found, err := lookup(ctx, network, host)
		if err != nil || hasIPv6() {
			return found, err
		}
		return slices.DeleteFunc(found, func(a netip.Addr) bool { return a.Unmap().Is6() }), nil
	}
}

// hasIPv6 reports whether an interface has an IPv6 address. If that is unknown, it returns true.
func hasIPv6() bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		ip, ok := a.(*net.IPNet)
		return ok && ip.IP.To4() == nil
	})
}

// resolver translates the resolver of a scope; nil stands for the system's.
func (t *translator) resolver(s *scope) *conf.Resolver {
	d := s.one("resolver")
	if d == nil {
		return nil
	}
	r := &conf.Resolver{Timeout: s.time("resolver_timeout")}
	not := func(text string) (bool, error) {
		on, err := onOff(text)
		return !on, err
	}
	for i, arg := range d.Args {
		if strings.Contains(arg, "=") {
			t.params(d, d.Args[i:i+1],
				value("valid=", &r.Valid, grammar.ParseSeconds), value("ipv4=", &r.NoIPv4, not),
				value("ipv6=", &r.NoIPv6, not))
			continue
		}
		if err := checkServerAddr(arg); err != nil {
			t.errorf(d, "invalid address %s (must be HOST or HOST:PORT)", grammar.Quote(arg))
		}
		r.Servers = append(r.Servers, arg)
	}
	switch {
	case len(r.Servers) == 0:
		t.errorf(d, "no DNS servers")
	case r.NoIPv4 && r.NoIPv6:
		t.errorf(d, "ipv4 and ipv6 cannot both be off")
	}
	return r
}
