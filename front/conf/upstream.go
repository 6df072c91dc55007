package conf

import "time"

// Upstream is a group of servers: an upstream block. Every field but Name and Servers may be zero.
type Upstream struct {
	Name    string
	Servers []Server
	Balance Balance
	// Keepalive is the maximum number of idle connections to a server; 0 means none.
	Keepalive int
	// KeepaliveTimeout is how long a connection stays idle; 0 is 60 s. KeepaliveRequests is its
	// maximum number of requests; 0 is 1000. KeepaliveTime is its maximum age; 0 is an hour.
	KeepaliveTimeout, KeepaliveTime time.Duration
	KeepaliveRequests               int
	// Sticky binds clients to servers; nil does not.
	Sticky *Sticky
	// Resolver resolves the names of servers with Resolve. Nil is the system's.
	Resolver *Resolver
	// Pos is the position in the configuration, for messages.
	Pos string
}

// Server is a server of an Upstream.
type Server struct {
	// Addr is HOST:PORT, HOST (port 80), or unix:PATH. A host with several addresses counts as
	// several servers, up to 64. The state of an address is kept as long as the name has it. If a
	// name cannot be resolved again, the old addresses stay.
	Addr string
	// Resolve follows changes of a name by the TTL of its records; it may have no address at first.
	// Without it, the system resolves the name in New, which fails if that fails, and every 30
	// seconds.
	Resolve bool
	Weight  int // 0 is 1
	// After MaxFails failures within FailTimeout, the server gets no requests for that time.
	// MaxFails 0 is 1, negative means never; FailTimeout 0 is 10 s.
	MaxFails    int
	FailTimeout time.Duration
	MaxConns    int // 0 is no limit
	Backup      bool
	Down        bool
	// Drain lets the server respond only to clients that Sticky has bound to it.
	Drain bool
	// SlowStart is how long the weight grows from zero after the server has become available again.
	SlowStart time.Duration
	// Route is the server's name in Sticky; "" is a hash of its address.
	Route string
}

// Balance is a load balancing method. The zero value is smooth weighted round robin.
type Balance struct {
	// Method is the name of the directive: hash, ip_hash, least_conn or random.
	Method string
	// Args are the arguments of the directive. The first one of hash is its key.
	Args []Text
}

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
