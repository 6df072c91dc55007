// Package upstream chooses which server of a group is asked, and remembers which ones failed.
package upstream

import "time"

// Config is a group of servers: an upstream block. The zero value of each field but Name and Servers is a good one.
type Config struct {
	Name    string
	Servers []Server
	Balance Balance
	// Key is what Hash goes by, with variables as in front.Text.
	Key string
	// Keepalive is the number of idle connections that are kept to a server; 0 keeps none.
	Keepalive int
	// KeepaliveTimeout is for how long; 0 is 60 s. KeepaliveRequests is for how many requests; 0 is 1000. KeepaliveTime is how long a
	// connection is used at all; 0 is an hour.
	KeepaliveTimeout, KeepaliveTime time.Duration
	KeepaliveRequests               int
	// Pos is where it was configured, for messages.
	Pos string
}

// Server is one of a group.
type Server struct {
	// Addr is HOST:PORT, HOST (with port 80), or unix:PATH. A host that has several addresses counts as so many servers, of which it
	// can have 64. Names are looked up when the group is made, and again every 30 seconds: what is known holds if that fails. What is
	// remembered of an address stays as long as the name has it.
	Addr   string
	Weight int // 0 is 1
	// MaxFails failures within FailTimeout have it not be asked for as long. 0 is 1, below zero is never; 0 is 10 s.
	MaxFails    int
	FailTimeout time.Duration
	MaxConns    int // 0 is no bound
	Backup      bool
	Down        bool
}

// Balance is how a server is chosen.
type Balance int

// Ways of choosing.
const (
	RoundRobin Balance = iota // by weights, smoothly
	LeastConn
	IPHash
	Hash           // of Key
	ConsistentHash // of Key, such that few keys move if a server comes or goes
	Random
	RandomTwo // of two, the one with fewer connections
)

// Next says when another server of a group is asked: proxy_next_upstream. That never happens once a byte of an answer went to the client.
type Next struct {
	Off bool
	// Error and Timeout are the default if nothing is set.
	Error, Timeout, InvalidHeader bool
	Statuses                      []int // 403, 404, 429, 500, 502, 503, 504
	// NonIdempotent asks another one also for POST, LOCK and PATCH, though the first one may have begun with it.
	NonIdempotent bool
	Tries         int           // 0 is no bound but the servers
	For           time.Duration // how long servers are tried; 0 is no bound
}
