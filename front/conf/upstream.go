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

// Sticky binds clients to servers of an Upstream. One of its fields is set. If the server of a
// client is not available, another one is chosen and the client is bound to that.
type Sticky struct {
	Cookie *StickyCookie
	// Routes are texts of which the first that is not empty is the route of the client's server.
	Routes []Text
}

// StickyCookie binds a client by a cookie that the front sets.
type StickyCookie struct {
	Name string
	// Expires is how long the client keeps the cookie: 0 is as long as it runs, negative is
	// forever.
	Expires                time.Duration
	Domain, Path, SameSite Text // "" leaves the attribute out
	HTTPOnly, Secure       bool
}

// Resolver describes the DNS servers that resolve names: resolver and resolver_timeout.
type Resolver struct {
	// Servers are HOST:PORT or HOST (port 53). The system resolves their names, once.
	Servers []string
	// Valid is how long addresses are used; 0 is the TTL of their records.
	Valid time.Duration
	// NoIPv4 and NoIPv6 leave out addresses of a family.
	NoIPv4, NoIPv6 bool
	// Timeout limits the time to resolve a name; 0 is 30 s.
	Timeout time.Duration
}

// HealthCheck checks the servers of a Proxy's upstream by requests of its own: health_check. The
// zero value sends GET / every 5 seconds; a status of 200 to 399 is a success.
type HealthCheck struct {
	// Interval is the time between two checks of a server; 0 is 5 s. Jitter is the maximum of a
	// random time that is added.
	Interval, Jitter time.Duration
	// Fails is the number of failures in a row after which a server gets no requests, and Passes
	// the number of successes after which it gets them again; 0 is 1.
	Fails, Passes int
	URI           string // "" is /
	Port          int    // 0 is the server's
	// Mandatory gives a server no requests until its first check has passed. With Persistent, a
	// server keeps its state in a reload.
	Mandatory, Persistent bool
	Match                 *HealthMatch // what a successful response is; nil is the default
}

// HealthMatch is what the response to a HealthCheck must be: a match block. All of it must be met.
type HealthMatch struct {
	Name string
	// Statuses are ranges of the status, as the first and the last one; with NotStatus none of them
	// may contain it. Nil is any status.
	Statuses  [][2]int
	NotStatus bool
	Header    []HeaderMatch
	// Body is a regular expression for the first 256 KB of the body, "" for none. With NotBody it
	// must not match.
	Body    string
	NotBody bool
}

// HeaderMatch is a condition about a field of a response.
type HeaderMatch struct {
	Name string
	// Op compares the value with Value: "=" or "!=", or as a regular expression "~" or "!~". With
	// "" the field must be present, with "!" it must not.
	Op, Value string
}
