package core

import (
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

type connUse struct {
	info     connection.Info // nil if the server does not provide it
	requests int             // including this one
}

// limitKeepAlive closes the connection after the response, if the location allows no more requests.
// As in nginx another location of the same request does not undo that.
func (x *Exchange) limitKeepAlive() {
	most, age := x.Loc.Settings.KeepAliveRequests, x.Loc.Settings.KeepAliveTime
	use := &x.ConnUse
	// reading the clock costs a tenth of what else the front does for a bound handler's request
	looksAtClock := use.requests <= 64 || use.requests%16 == 0
	if most > 0 && use.requests >= most || age > 0 && looksAtClock && time.Since(use.info.Opened()) > age {
		x.Response.Header()["Connection"] = []string{"close"}
	}
}

// connectionNumber is $connection, "" if the server does not provide it.
func connectionNumber(x *Exchange) string {
	if number := x.connectionNumber(); number != 0 {
		return strconv.FormatInt(number, 10)
	}
	return ""
}

// connectionNumber returns the number of the request's connection, or 0 if the server does not
// provide it. Connections are counted when their number is needed first.
func (x *Exchange) connectionNumber() int64 {
	if info := connection.Of(x.Request.Context()); info != nil {
		return info.Number(&x.Plan.State.connections)
	}
	return 0
}

// ofConnection is a variable of the connection's use, "" if the server does not provide it.
func ofConnection(get func(*connUse) string) KnownVariable {
	return KnownVariable{Needs: needsConnection, Get: func(x *Exchange) string {
		if x.ConnUse.info == nil {
			return ""
		}
		return get(&x.ConnUse)
	}}
}
