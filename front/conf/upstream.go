package conf

import "time"

// Upstream is a group of servers: an upstream block. Every field but Name and Servers may be zero.
type Upstream struct {
	Name    string
	Servers []Server
	Balance Balance
	// Key is the key of Hash and ConsistentHash.
	Key Text
	// Keepalive is the maximum number of idle connections to a server; 0 means none.
	Keepalive int
	// KeepaliveTimeout is how long a connection stays idle; 0 is 60 s. KeepaliveRequests is its
	// maximum number of requests; 0 is 1000. KeepaliveTime is its maximum age; 0 is an hour.
	KeepaliveTimeout, KeepaliveTime time.Duration
	KeepaliveRequests               int
	// Pos is the position in the configuration, for messages.
	Pos string
}

// Server is a server of an Upstream.
type Server struct {
	// Addr is HOST:PORT, HOST (port 80), or unix:PATH. A host with several addresses counts as
	// several servers, up to 64. Names are resolved by New, and again every 30 seconds; if that
	// fails, the old addresses stay. The state of an address is kept as long as the name has it.
	Addr   string
	Weight int // 0 is 1
	// After MaxFails failures within FailTimeout, the server gets no requests for that time.
	// MaxFails 0 is 1, negative means never; FailTimeout 0 is 10 s.
	MaxFails    int
	FailTimeout time.Duration
	MaxConns    int // 0 is no limit
	Backup      bool
	Down        bool
}

// Balance is a load balancing method.
type Balance int

// The load balancing methods.
const (
	RoundRobin Balance = iota // smooth weighted round robin
	LeastConn
	IPHash
	Hash           // by Key
	ConsistentHash // by Key, such that few keys move if a server is added or removed
	Random
	RandomTwo // the one of two with fewer connections
)

// NextUpstream defines when a request is retried on another server: proxy_next_upstream. A request
// is never retried after a byte of a response was sent to the client.
type NextUpstream struct {
	Off bool
	// Error and Timeout are the default if nothing is set.
	Error, Timeout, InvalidHeader bool
	Statuses                      []int // 403, 404, 429, 500, 502, 503, 504
	// NonIdempotent also retries POST, LOCK and PATCH, although the first server may have started
	// to process them.
	NonIdempotent bool
	Tries         int           // 0 is limited only by the number of servers
	For           time.Duration // the total time for retries; 0 is no limit
}
