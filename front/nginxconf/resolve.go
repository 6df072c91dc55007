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
)

const (
	// resolveTime bounds how long all names of a configuration may take to be resolved.
	resolveTime = 10 * time.Second
	// localTime bounds how long localhost may: who has no entry of it in the hosts file shall not wait for DNS.
	localTime = time.Second
	// maxAddresses bounds those of a name.
	maxAddresses = 64
	// maxName bounds a host's name, as DNS does.
	maxName = 253
)

// Resolver finds the addresses of a name. A net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolver asks for each name once.
type resolver struct {
	Resolver
	until time.Time // from the first name on
	known map[string]resolved
}

type resolved struct {
	addrs []netip.Addr
	err   error
}

func newResolver(r Resolver) *resolver {
	if r == nil {
		r = reachable{net.DefaultResolver}
	}
	return &resolver{Resolver: r, known: make(map[string]resolved)}
}

// find returns the addresses of a name, those of IPv4 first.
func (r *resolver) find(name string) ([]netip.Addr, error) {
	name = strings.ToLower(name)
	found, ok := r.known[name]
	if !ok {
		found.addrs, found.err = r.ask(name)
		r.known[name] = found
	}
	return found.addrs, found.err
}

func (r *resolver) ask(name string) ([]netip.Addr, error) {
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
	found, err := r.LookupNetIP(ctx, "ip", name)
	switch {
	case local && (err != nil || len(found) == 0):
		found = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case err != nil:
		return nil, fmt.Errorf("the name cannot be resolved: %w", err)
	case len(found) == 0:
		return nil, errors.New("the name has no address")
	}
	addrs := make([]netip.Addr, len(found))
	for i, a := range found {
		addrs[i] = a.Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare) // resolvers turn them round
	if addrs = slices.Compact(addrs); len(addrs) > maxAddresses {
		return nil, fmt.Errorf("the name has %d addresses, want at most %d", len(addrs), maxAddresses)
	}
	return addrs, nil
}

// checkHost refuses what no resolver need be asked for. Names that end in a number are addresses that are not written as such.
func checkHost(name string) error {
	if i := strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", r) }); i >= 0 || name == "" || len(name) > maxName {
		return errors.New("want an IP address, a host's name, * or unix:PATH")
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; last != "" && strings.Trim(last, "0123456789") == "" {
		return errors.New("it is neither an IP address nor a name")
	}
	return nil
}

// reachable leaves out addresses of IPv6 where the machine has none of its own, as getaddrinfo does for nginx: hosts files name ::1
// even there.
type reachable struct{ Resolver }

func (r reachable) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	found, err := r.Resolver.LookupNetIP(ctx, network, host)
	if err != nil || hasIPv6() {
		return found, err
	}
	return slices.DeleteFunc(found, func(a netip.Addr) bool { return a.Unmap().Is6() }), nil
}

// hasIPv6 reports whether an interface has an address of it. If nobody knows, it has.
func hasIPv6() bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		ip, ok := a.(*net.IPNet)
		return ok && ip.IP.To4() == nil
	})
}
