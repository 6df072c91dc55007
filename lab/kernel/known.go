package kernel

import "slices"

// Setting is what is known of a kernel setting: what it does, and whether that still
// means something to servers that are weighed over loopback.
type Setting struct {
	Name string
	Does string // the subject of a sentence: "how many …"
	Why  string // it matters, or no longer does: a sentence
	Use  Use

	// Each is, of Room, how much of it one connection of a run takes at most; 0 where
	// that cannot be said before.
	Each int

	Alike  []string // of Value: other values that come to the same here
	Lowest int      // of Range: what the range must not begin below
}

// Use is what a setting is good for in a run.
type Use int

// The uses.
const (
	None  Use = iota // whatever its value, a run cannot notice
	Room             // a number: more is more room, and less may be too little
	Range            // two numbers, from and to: likewise
	Value            // one value does it, others do not
)

// Known are all settings of which something is known, in the order in which they are shown.
func Known() []Setting { return slices.Concat(rooms(), values(), spent()) }

// rooms are those that a run may find too small.
func rooms() []Setting {
	return []Setting{
		{
			Name: "net.core.somaxconn", Use: Room, Each: 1,
			Does: "how many connections may wait at a listening socket until the server accepts them",
			Why:  "all connections of a trial are opened at once, and those that find no place try again after a second",
		},
		{
			Name: "net.core.netdev_max_backlog", Use: Room, Each: 4,
			Does: "how many received packets may wait for a processor",
			Why:  "loopback's packets wait there, too; those that find no place are lost, and are sent again 200 ms later",
		},
		{
			// Servers that are weighed listen below Lowest: no client's port may be there.
			Name: "net.ipv4.ip_local_port_range", Use: Range, Lowest: 16384,
			Does: "the ports that outgoing connections may have",
			Why:  "a closed connection keeps its port for a minute, so where connections are not kept they run out of ports; those below 16384 are left to the servers",
		},
		{
			Name: "net.ipv4.tcp_max_tw_buckets", Use: Room,
			Does: "how many closed connections are remembered for their minute",
			Why:  "where connections are not kept there are very many of them",
		},
		{
			Name: "fs.file-max", Use: Room, Each: 4,
			Does: "how many files all processes together may have open",
			Why:  "a connection is a file at either end, and again behind a front",
		},
		{
			Name: "fs.nr_open", Use: Room, Each: 3,
			Does: "how many open files a process may ask to be allowed (ulimit -n)",
			Why:  "a front has two for each client",
		},
	}
}

// values are those of which one value does it.
func values() []Setting {
	return []Setting{
		{
			Name: "net.ipv4.tcp_no_metrics_save", Use: Value,
			Does: "whether new connections forget what closed ones have learnt of the way",
			Why:  "what one contender's connections met with must not be the next one's start",
		},
		{
			Name: "net.ipv4.tcp_tw_reuse", Use: Value, Alike: []string{"2"},
			Does: "whether the port of a closed connection may be used again after a second",
			Why:  "where connections are not kept this gives ports back",
		},
	}
}

// spent are those that a run cannot notice today.
func spent() []Setting {
	return []Setting{
		{
			Name: "net.ipv4.tcp_tw_recycle",
			Does: "whether closed connections were forgotten early, by their clients' clocks",
			Why:  "it broke clients behind one address, and Linux has had no such setting since 4.12",
		},
		{
			Name: "net.ipv4.tcp_max_syn_backlog",
			Does: "how many connections may be half open at a listening socket",
			Why:  "over loopback a connection is half open for microseconds, and the bound is asked only without tcp_syncookies, which are on by default",
		},
		{
			Name: "net.ipv4.tcp_fin_timeout",
			Does: "how long a connection that only one side has closed is kept",
			Why:  "over loopback the other side closes at once; the minute after that is another one, which cannot be set",
		},
		{
			Name: "net.ipv4.tcp_keepalive_time",
			Does: "how long a connection is idle before it is probed",
			Why:  "no connection of a run is idle for so long, and Go has a time of its own",
		},
		{
			Name: "net.ipv4.tcp_syn_retries",
			Does: "how often an unanswered request for a connection is sent again",
			Why:  "fewer only turn waiting into failing",
		},
		{
			Name: "net.ipv4.tcp_synack_retries",
			Does: "how often the answer to a request for a connection is sent again",
			Why:  "over loopback no answer is lost on the way",
		},
		{
			Name: "net.core.rmem_max",
			Does: "how large a receive buffer a program may ask for",
			Why:  "nothing that is weighed asks: TCP sizes its buffers itself, within tcp_rmem",
		},
		{
			Name: "net.core.wmem_max",
			Does: "how large a send buffer a program may ask for",
			Why:  "nothing that is weighed asks: TCP sizes its buffers itself, within tcp_wmem",
		},
		{
			Name: "net.ipv4.ip_forward",
			Does: "whether packets for other machines are passed on",
			Why:  "nothing here is for other machines",
		},
		{
			Name: "vm.min_free_kbytes",
			Does: "how much memory the kernel keeps free for itself",
			Why:  "a run does not come near the end of the memory",
		},
		{
			Name: "vm.overcommit_memory",
			Does: "whether programs may reserve more memory than there is",
			Why:  "what is weighed reserves little, and is refused nothing by the default either",
		},
	}
}
