package conf

import "time"

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
	// StatusZone is a name under which metrics count queries; "" counts nothing.
	StatusZone string
}
