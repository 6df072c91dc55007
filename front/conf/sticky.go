package conf

import "time"

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
