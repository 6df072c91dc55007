package conf

import "time"

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
	// KeepaliveTime is how long a connection is kept for further checks; 0 keeps none.
	KeepaliveTime time.Duration
	Match         *HealthMatch // what a successful response is; nil is the default
	// Pos is the position in the configuration, for messages.
	Pos string
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
