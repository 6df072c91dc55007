package kernel

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Reached counts, since the machine's start, how often a bound that a setting draws was
// reached.
type Reached struct {
	Backlog uint64 // packets that found no place in net.core.netdev_max_backlog, by whatever program
	Accepts uint64 // connections that found none at a listening socket
	Closed  uint64 // closed connections that found none in net.ipv4.tcp_max_tw_buckets
}

// ReachedNow reads the counters.
func ReachedNow() (r Reached, err error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return r, fmt.Errorf("kernel: %w", err)
	}
	stats, err := fs.NetSoftnetStat()
	if err != nil {
		return r, fmt.Errorf("kernel: %w", err)
	}
	for i := range stats {
		r.Backlog += uint64(stats[i].Dropped)
	}
	self, err := fs.Self()
	if err != nil {
		return r, fmt.Errorf("kernel: %w", err)
	}
	netstat, err := self.Netstat()
	if err != nil {
		return r, fmt.Errorf("kernel: %w", err)
	}
	if n := netstat.ListenOverflows; n != nil {
		r.Accepts = uint64(*n)
	}
	if n := netstat.TCPTimeWaitOverflow; n != nil {
		r.Closed = uint64(*n)
	}
	return r, nil
}

// Since says, a sentence each, which bounds have been reached since before.
func (r Reached) Since(before Reached) (said []string) {
	for _, bound := range []struct {
		n    uint64
		what string
	}{
		{less(r.Backlog, before.Backlog), "packets were lost on this machine, and had to be sent again, because more waited for a processor than net.core.netdev_max_backlog allows"},
		{less(r.Accepts, before.Accepts), "times a connection found no place at a listening socket, and tried again later: the server's own backlog bounds that, and net.core.somaxconn"},
		{less(r.Closed, before.Closed), "closed connections were forgotten at once, because there were more than net.ipv4.tcp_max_tw_buckets"},
	} {
		if bound.n > 0 {
			said = append(said, fmt.Sprintf("In this run %d %s.", bound.n, bound.what))
		}
	}
	return said
}

// less is a minus b of counters that may have begun anew: some have 32 bits.
func less(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}
