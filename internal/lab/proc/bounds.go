package proc

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Limits counts how often limits of kernel settings were reached since the machine started, by all
// programs.
type Limits struct {
	Backlog uint64 // packets dropped because of net.core.netdev_max_backlog
	Accepts uint64 // connections dropped because a listening socket's backlog was full
	Closed  uint64 // closed connections dropped because of net.ipv4.tcp_max_tw_buckets
}

// LimitsReached reads the counters.
func LimitsReached() (r Limits, err error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return r, fmt.Errorf("proc: %w", err)
	}
	stats, err := fs.NetSoftnetStat()
	if err != nil {
		return r, fmt.Errorf("proc: %w", err)
	}
	for i := range stats {
		r.Backlog += uint64(stats[i].Dropped)
	}
	self, err := fs.Self()
	if err != nil {
		return r, fmt.Errorf("proc: %w", err)
	}
	netstat, err := self.Netstat()
	if err != nil {
		return r, fmt.Errorf("proc: %w", err)
	}
	if n := netstat.ListenOverflows; n != nil {
		r.Accepts = uint64(*n)
	}
	if n := netstat.TCPTimeWaitOverflow; n != nil {
		r.Closed = uint64(*n)
	}
	return r, nil
}

// Since returns a sentence for each limit that was reached since before.
func (r Limits) Since(before Limits) (sentences []string) {
	for _, bound := range []struct {
		n    uint64
		what string
	}{
		{less(r.Backlog, before.Backlog), "packets were dropped on this machine and sent again, because more waited for a processor than net.core.netdev_max_backlog allows"},
		{less(r.Accepts, before.Accepts), "connections were dropped and tried again, because the backlog of a listening socket was full: the server and net.core.somaxconn limit it"},
		{less(r.Closed, before.Closed), "closed connections were dropped from TIME_WAIT, because there were more than net.ipv4.tcp_max_tw_buckets"},
	} {
		if bound.n > 0 {
			sentences = append(sentences, fmt.Sprintf("In this run %d %s.", bound.n, bound.what))
		}
	}
	return sentences
}

// less returns a - b, or 0 if the counter has wrapped: some have 32 bits.
func less(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}
