package front

import (
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// lifetime bounds how long connections of clients are kept, by location. Zero values are no bounds.
type keepAliveLimits struct {
	requests int
	age      time.Duration
}

// served is what is known of the request's connection.
type connUse struct {
	info     connection.Info // nil if the server provides none
	requests int             // with this one
}

// countRequest counts the request, if something depends on how many its connection has had.
func (x *exchange) countRequest() {
	if info := connection.Of(x.r.Context()); info != nil {
		x.connUse = connUse{info, info.CountRequest()}
	}
}

// boundConnection has the response end the connection, if the location says that this is its last request. As in nginx another location
// of the same request does not change that.
func (x *exchange) limitKeepAlive() {
	s, l := &x.connUse, &x.loc.keepAlive
	if s.info == nil {
		return
	}
	if l.requests > 0 && s.requests >= l.requests || l.age > 0 && time.Since(s.info.Opened()) > l.age {
		x.serverWriter().Header()["Connection"] = []string{"close"}
	}
}

// setLifetime compiles how long connections are kept.
func (c *compiler) setKeepAlive(loc *location, s *Settings) {
	loc.keepAlive = keepAliveLimits{s.KeepAliveRequests, s.KeepAliveTime}
	if loc.keepAlive != (keepAliveLimits{}) {
		c.plan.countsRequests = true
	}
}

func connectionRequests(x *exchange) string {
	if x.connUse.info == nil {
		return ""
	}
	return strconv.Itoa(x.connUse.requests)
}

func connectionTime(x *exchange) string {
	if x.connUse.info == nil {
		return ""
	}
	return seconds(time.Since(x.connUse.info.Opened()))
}
