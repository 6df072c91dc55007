package explain

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// fewConnections is the number of additional connections per request from which they are a
	// cause. Servers close a connection after some hundred requests; below five requests, most of
	// what keep-alive saves is lost.
	fewConnections = 0.2

	// connectionUs is about the system time that a TCP connection on loopback costs both sides,
	// from connect to close. It only ranks causes.
	connectionUs = 40

	// refusedBound is the share of requests or connections from which failures are a cause. A
	// single failure may be an accident.
	refusedBound = 0.001

	// connectionEach is the number of connections per request from which each request has its own.
	connectionEach = 0.9
	// connectionCalls is how many more system calls per connection are a cause, and callUs about
	// what a call costs that moves no data.
	connectionCalls = 0.5
	callUs          = 0.5
)

// callsOfConnections lists the system calls that open, set up and close a connection.
func callsOfConnections() []string {
	return []string{
		"accept", "accept4", "close", "shutdown", "setsockopt", "getsockopt", "getsockname", "getpeername",
		"epoll_ctl", "fcntl", "ioctl",
	}
}

// connectionWork compares the work for connections if both the contender and the control serve one
// request per connection.
func connectionWork(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	n, m := of.calls(callsOfConnections()), control.calls(callsOfConnections())
	if c.Of.Connects < connectionEach || c.Control.Connects < connectionEach || of.Calls == nil ||
		control.Calls == nil || n-m < connectionCalls {
		return Finding{}
	}
	return c.extra((n-m)*callUs,
		fmt.Sprintf("each request uses a new connection, for which it makes %s system calls (%s: %s)", count(n),
			c.Control.Title, count(m)), Counter{})
}

func noBackendKeepAlive(c *Case) Finding {
	front := c.Of.front()
	more := c.Of.BackendConnects - c.Control.BackendConnects
	if front == nil || more < fewConnections {
		return Finding{}
	}
	return c.extra(more*connectionUs,
		fmt.Sprintf("its %s opens %s connections to the application per request (%s: %s)", front.Role,
			count(c.Of.BackendConnects), c.Control.Title, count(c.Control.BackendConnects)),
		Counter{Setting: BackendKeepAlive, To: "keep-alive to the application"})
}

func noClientKeepAlive(c *Case) Finding {
	more := c.Of.Connects - c.Control.Connects
	if more < fewConnections {
		return Finding{}
	}
	return c.extra(more*connectionUs,
		fmt.Sprintf("clients open %s connections per request (%s: %s)", count(c.Of.Connects), c.Control.Title,
			count(c.Control.Connects)),
		Counter{Setting: ClientKeepAlive, To: "keep-alive to clients"})
}

// connectFailures detects a listen queue that is too short and a lack of local ports.
func connectFailures(c *Case) Finding {
	f := Finding{Explains: Latency, Share: 1,
		Counter: Counter{Setting: Backlog, To: "a longer listen queue and keep-alive"}}
	const noPorts = "cannot assign requested address"
	lacksPorts := func(text string) bool { return strings.Contains(text, noPorts) }
	refused := c.Of.Statuses[502] + c.Of.Statuses[503] - c.Control.Statuses[502] - c.Control.Statuses[503]
	switch {
	case c.Of.Errors-c.Control.Errors >= refusedBound && slices.ContainsFunc(c.Of.ErrorTexts, lacksPorts):
		f.Sentence = fmt.Sprintf("no local ports were left for outgoing connections: %s of all requests failed",
			percent(c.Of.Errors))
	case c.Of.RetriedShare-c.Control.RetriedShare >= refusedBound:
		f.Sentence = fmt.Sprintf("%.1f %% of client connections took at least a second to open (%s: %.1f %%), as they do if the listen queue overflows and the client sends its SYN again",
			100*c.Of.RetriedShare, c.Control.Title, 100*c.Control.RetriedShare)
	case refused >= refusedBound && c.Of.front() != nil:
		f.Sentence = fmt.Sprintf("its %s responded to %.1f %% of requests with status 502 or 503: the application did not accept its connections", c.Of.front().Role, 100*refused)
	}
	return f
}
