package front

import (
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// lifetime bounds how long connections of clients are kept, by location. Zero values are no bounds.
type lifetime struct {
	requests int
	age      time.Duration
}

// served is what is known of the request's connection.
type served struct {
	info     connection.Info // nil if the server provides none
	requests int             // with this one
}

// countRequest counts the request, if something depends on how many its connection has had.
func (x *exchange) countRequest() {
	if info := connection.Of(x.r.Context()); info != nil {
		x.served = served{info, info.CountRequest()}
	}
}

// boundConnection has the response end the connection, if the location says that this is its last request. As in nginx another location
// of the same request does not change that.
func (x *exchange) boundConnection() {
	s, l := &x.served, &x.loc.lifetime
	if s.info == nil {
		return
	}
	if l.requests > 0 && s.requests >= l.requests || l.age > 0 && time.Since(s.info.Opened()) > l.age {
		x.server().Header()["Connection"] = []string{"close"}
	}
}

// setLifetime compiles how long connections are kept.
func (c *compiler) setLifetime(loc *location, s *Settings) {
	loc.lifetime = lifetime{s.KeepAliveRequests, s.KeepAliveTime}
	if loc.lifetime != (lifetime{}) {
		c.plan.countsRequests = true
	}
}

func connectionRequests(x *exchange) string {
	if x.served.info == nil {
		return ""
	}
	return strconv.Itoa(x.served.requests)
}

func connectionTime(x *exchange) string {
	if x.served.info == nil {
		return ""
	}
	return seconds(time.Since(x.served.info.Opened()))
}
