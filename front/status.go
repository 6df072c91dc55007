package front

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/tarehq/tare/front/conf"
)

// connections returns the numbers of connections that are known.
func (p *plan) connections() (accepted, open, reading int64) {
	if count := p.options.countConns; count != nil {
		accepted, open, reading = count()
	}
	n := &p.state.counts
	return accepted + n.accepted.Load(), open + n.conns.Load(), reading
}

// connectionNumbers are the numbers of nginx's status page: of connections that were accepted, of
// those that are open, and of open ones on which a part of a head has arrived, a request is in
// progress, or neither.
type connectionNumbers struct{ accepted, active, reading, writing, waiting int64 }

// connectionNumbers returns the numbers. They are not of the same instant, but add up. If the
// server does not report connections, requests count as connections.
func (p *plan) connectionNumbers() (n connectionNumbers) {
	counts := &p.state.counts
	n.accepted, n.active, n.reading = p.connections()
	if n.accepted == 0 {
		n.accepted = counts.requests.Load()
	}
	n.writing = counts.inFlight.Load()
	n.active = max(n.active, n.reading+n.writing)
	n.waiting = n.active - n.reading - n.writing
	return n
}

// connectionsVariable returns a variable with one of the numbers.
func connectionsVariable(number func(connectionNumbers) int64) knownVariable {
	return knownVariable{needs: needsCounts, get: func(x *exchange) string {
		return strconv.FormatInt(number(x.plan.connectionNumbers()), 10)
	}}
}

// statusModule shows numbers of connections and requests: stub_status.
func statusModule() module {
	return module{
		location: func(c *compiler, loc *location, from *conf.Location) error {
			if from.Status {
				loc.content = statusContent{c.plan}
			}
			return nil
		},
		variables: func(slot) map[string]knownVariable {
			return map[string]knownVariable{
				"connections_active":  connectionsVariable(func(n connectionNumbers) int64 { return n.active }),
				"connections_reading": connectionsVariable(func(n connectionNumbers) int64 { return n.reading }),
				"connections_writing": connectionsVariable(func(n connectionNumbers) int64 { return n.writing }),
				"connections_waiting": connectionsVariable(func(n connectionNumbers) int64 { return n.waiting }),
			}
		},
	}
}

// statusContent is the content of a location with stub_status.
type statusContent struct{ plan *plan }

// explain implements content.
func (statusContent) explain(x *exchange, e *explanation) outcome {
	return e.respond(x, "the page of stub_status")
}

// serve implements content.
func (s statusContent) serve(x *exchange) outcome {
	requests := s.plan.state.counts.requests.Load()
	n := s.plan.connectionNumbers()
	return x.sendPage("text/plain", fmt.Appendf(nil,
		"Active connections: %d \nserver accepts handled requests\n %d %d %d \nReading: %d Writing: %d Waiting: %d \n",
		n.active, n.accepted, n.accepted, requests, n.reading, n.writing, n.waiting))
}

// sendPage responds with a page that is never cached.
func (x *exchange) sendPage(contentType string, page []byte) outcome {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return x.fail(http.StatusMethodNotAllowed)
	}
	header := x.w.Header()
	header["Content-Type"] = []string{contentType}
	header["Content-Length"] = []string{strconv.Itoa(len(page))}
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodGet {
		_, _ = x.w.Write(page)
	}
	return responded
}
