package load

import (
	"errors"
	"net/netip"

	"github.com/tarehq/tare/internal/poll"
)

// route chooses the local address of a worker's connections. A closed connection keeps its port for
// a minute, and an address has some 28,000 ports for each server.
type route struct {
	sources []netip.Addr // if empty, the system chooses
	current int
	used    int // connections from this source
}

const (
	// connsPerSource is the number of connections from one source before the next one is used. The
	// system takes long to find a free port when most are taken.
	connsPerSource  = 4096
	loopbackSources = 250 // number of loopback addresses that are used
)

func newRoute(given []netip.Addr, to *address, i, n int) route {
	r := route{sources: given}
	if len(given) == 0 && to.socket == "" && to.tcp.Addr().Is4() && to.tcp.Addr().IsLoopback() {
		r.sources = append(r.sources, netip.Addr{}) // the usual address first, until its ports are used up
		for last := range loopbackSources {
			r.sources = append(r.sources, netip.AddrFrom4([4]byte{127, 0, 0, byte(last + 2)}))
		}
	}
	if len(given) > 0 {
		r.current = i * len(given) / n
	}
	return r
}

// connect starts a connection. It returns poll.ErrAgain if the backlog of a unix socket is full.
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
		if !errors.Is(err, poll.ErrNoPort) {
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
