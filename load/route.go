package load

import (
	"net/netip"

	"github.com/tarehq/tare/internal/poll"
)

// route is where a worker's connections come from. A connection that was closed keeps its port
// for a minute; an address has some 28,000, for each server.
type route struct {
	sources []netip.Addr // empty: the system's choice
	current int
	used    int // connections from this source
}

const (
	// portsAtOnce is how many connections are made from one source before the next has its
	// turn: where most ports are taken, the system takes long to find one that is not.
	connsPerSource = 4096
	// loopbacks is how many addresses of loopback are used.
	loopbackSources = 250
)

// newRoute returns the route of worker i of n.
func newRoute(given []netip.Addr, to *address, i, n int) route {
	r := route{sources: given}
	if len(given) == 0 && to.socket == "" && to.tcp.Addr().Is4() && to.tcp.Addr().IsLoopback() {
		r.sources = append(r.sources, netip.Addr{}) // what everybody expects, as long as it lasts
		for last := range loopbackSources {
			r.sources = append(r.sources, netip.AddrFrom4([4]byte{127, 0, 0, byte(last + 2)}))
		}
	}
	if len(given) > 0 {
		r.current = i * len(given) / n
	}
	return r
}

// connect begins a connection. It returns poll.ErrAgain when a unix socket's queue is full.
func (r *route) connect(to *address) (fd int, err error) {
	if to.socket != "" {
		return poll.ConnectUnix(to.socket)
	}
	if len(r.sources) == 0 {
		return poll.Connect(netip.Addr{}, to.tcp)
	}
	if r.used++; r.used > connsPerSource {
		r.next()
	}
	for range r.sources {
		fd, err = poll.Connect(r.sources[r.current], to.tcp)
		if !isPortExhausted(err) {
			return fd, err
		}
		r.next()
	}
	return fd, err
}

func (r *route) next() {
	r.current = (r.current + 1) % len(r.sources)
	r.used = 0
}
