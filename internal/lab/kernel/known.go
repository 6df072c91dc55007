package kernel

import "slices"

// Setting describes a kernel setting, and whether it affects servers that are measured over
// loopback.
type Setting struct {
	Name string
	Does string // the subject of a sentence: "how many …"
	Why  string // why it matters, or does not: a sentence
	Use  Use

	// Each is the highest need of one connection, for Room; 0 if unknown.
	Each int

	Alike  []string // other values with the same effect on a run, for Value
	Lowest int      // lower bound of the first number, for Range
}

// Use is how a setting affects a run.
type Use int

// The uses.
const (
	None  Use = iota // no value affects a run
	Room             // a limit: a run may need a higher one
	Range            // two numbers, from and to: a run may need a larger range
	Value            // only one value is right
)

// Known returns all known settings, in the order in which reports show them.
func Known() []Setting { return slices.Concat(rooms(), values(), spent()) }

// rooms returns the settings that may be too small for a run.
func rooms() []Setting {
	return []Setting{
		{
			Name: "net.core.somaxconn", Use: Room, Each: 1,
			Does: "how many connections may wait at a listening socket until the server accepts them",
			Why:  "a trial opens all connections at once; if the backlog is full, a client tries again after a second",
		},
		{
			Name: "net.core.netdev_max_backlog", Use: Room, Each: 4,
			Does: "how many received packets may wait for a processor",
			Why:  "packets on loopback wait there, too; if it is full they are dropped and sent again 200 ms later",
		},
		{
			// Measured servers listen on ports below Lowest, which clients must not use.
			Name: "net.ipv4.ip_local_port_range", Use: Range, Lowest: 16384,
			Does: "the range of ports of outgoing connections",
			Why:  "a closed connection keeps its port for a minute, so that without keep-alive ports run out; those below 16384 are reserved for servers",
		},
		{
			Name: "net.ipv4.tcp_max_tw_buckets", Use: Room,
			Does: "how many closed connections stay in TIME_WAIT, for a minute",
			Why:  "without keep-alive there are very many of them",
		},
		{
			Name: "fs.file-max", Use: Room, Each: 4,
			Does: "how many files all processes together may have open",
			Why:  "a connection is a file at both ends, and again behind a front",
		},
		{
			Name: "fs.nr_open", Use: Room, Each: 3,
			Does: "the highest limit of open files that a process may set (ulimit -n)",
			Why:  "a front has two for each client",
		},
	}
}

// values returns the settings that have one right value.
func values() []Setting {
	return []Setting{
		{
			Name: "net.ipv4.tcp_no_metrics_save", Use: Value,
			Does: "whether new connections ignore the metrics of closed ones to the same host",
			Why:  "the connections of one contender must not affect those of the next",
		},
		{
			Name: "net.ipv4.tcp_tw_reuse", Use: Value, Alike: []string{"2"},
			Does: "whether a new connection may use the port of a closed one after a second",
			Why:  "without keep-alive this frees ports",
		},
	}
}

// spent returns the settings that do not affect a run today.
func spent() []Setting {
	return []Setting{
		{
			Name: "net.ipv4.tcp_tw_recycle",
			Does: "whether closed connections left TIME_WAIT early, by their clients' timestamps",
			Why:  "it broke clients behind one address, and Linux removed it in 4.12",
		},
		{
			Name: "net.ipv4.tcp_max_syn_backlog",
			Does: "how many connections may be half open at a listening socket",
			Why:  "over loopback a connection is half open for microseconds, and the limit applies only without tcp_syncookies, which are on by default",
		},
		{
			Name: "net.ipv4.tcp_fin_timeout",
			Does: "how long a connection that only one side has closed stays open",
			Why:  "over loopback the other side closes at once; the minute of TIME_WAIT after that is fixed",
		},
		{
			Name: "net.ipv4.tcp_keepalive_time",
			Does: "how long a connection is idle before it is probed",
			Why:  "no connection of a run is idle for so long, and Go sets its own time",
		},
		{
			Name: "net.ipv4.tcp_syn_retries",
			Does: "how often a SYN without a reply is sent again",
			Why:  "with fewer retries connections fail instead of waiting",
		},
		{
			Name: "net.ipv4.tcp_synack_retries",
			Does: "how often a SYN-ACK without a reply is sent again",
			Why:  "over loopback no SYN-ACK is lost",
		},
		{
			Name: "net.core.rmem_max",
			Does: "the largest receive buffer that a program may set",
			Why:  "no contender sets one: TCP sizes its buffers itself, within tcp_rmem",
		},
		{
			Name: "net.core.wmem_max",
			Does: "the largest send buffer that a program may set",
			Why:  "no contender sets one: TCP sizes its buffers itself, within tcp_wmem",
		},
		{
			Name: "net.ipv4.ip_forward",
			Does: "whether packets for other machines are forwarded",
			Why:  "a run has no packets for other machines",
		},
		{
			Name: "vm.min_free_kbytes",
			Does: "how much memory the kernel keeps free for itself",
			Why:  "a run does not use up the memory",
		},
		{
			Name: "vm.overcommit_memory",
			Does: "whether programs may reserve more memory than there is",
			Why:  "contenders reserve little memory, which the default allows",
		},
	}
}
