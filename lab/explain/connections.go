package explain

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// fewConnections is from how many more connections opened per request on they are a
	// cause. Servers close a kept connection after some hundred requests; one that is kept
	// for fewer than five has lost most of what keeping it saves.
	fewConnections = 0.2

	// connectionUs is about what a TCP connection on loopback costs both sides from connect
	// to close, in system time. It is used to rank causes only.
	connectionUs = 40

	// refusedBound is from which share of requests or connections on failures are a cause.
	// A single one may be an accident.
	refusedBound = 0.001

	// connectionEach is from how many connections per request on each has one of its own.
	connectionEach = 0.9
	// connectionCalls is from how many system calls per connection more on they are a cause, and
	// callUs about what one costs that moves no data.
	connectionCalls = 0.5
	callUs          = 0.5
)

// callsOfConnections are those that a server makes when a connection comes and goes.
func callsOfConnections() []string {
	return []string{
		"accept", "accept4", "close", "shutdown", "setsockopt", "getsockopt", "getsockname", "getpeername", "epoll_ctl", "fcntl", "ioctl",
	}
}

// connectionWork is about the shape in which each request has a connection of its own, with the
// contender and the control alike.
func connectionWork(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	n, m := of.calls(callsOfConnections()), control.calls(callsOfConnections())
	if c.Of.Connects < connectionEach || c.Control.Connects < connectionEach || of.Calls == nil || control.Calls == nil || n-m < connectionCalls {
		return Finding{}
	}
	us := (n - m) * callUs
	return Finding{
		Sentence: fmt.Sprintf("each request has a connection of its own, which it takes %s system calls to accept, to set up and to close, where %s makes %s%s",
			count(n), c.Control.Title, count(m), c.ofThe(us)),
		Numbers:  []Number{{"system calls for a connection", n, m}},
		Explains: Weight, Share: c.share(us),
	}
}

func noBackendKeepAlive(c *Case) Finding {
	front := c.Of.front()
	more := c.Of.BackendConnects - c.Control.BackendConnects
	if front == nil || more < fewConnections {
		return Finding{}
	}
	us := more * connectionUs
	return Finding{
		Sentence: fmt.Sprintf("for each request its %s opens %s connections to the application, where with %s it opens %s%s",
			front.Role, count(c.Of.BackendConnects), c.Control.Title, count(c.Control.BackendConnects), c.ofThe(us)),
		Numbers:  []Number{{"connections to the application per request", c.Of.BackendConnects, c.Control.BackendConnects}},
		Explains: Weight, Share: c.share(us), IsCounted: true,
		Counter: Counter{Setting: BackendKeepAlive, To: "kept connections to the application"},
	}
}

func noClientKeepAlive(c *Case) Finding {
	more := c.Of.Connects - c.Control.Connects
	if more < fewConnections {
		return Finding{}
	}
	us := more * connectionUs
	return Finding{
		Sentence: fmt.Sprintf("for each request clients open %s connections, where with %s they open %s%s",
			count(c.Of.Connects), c.Control.Title, count(c.Control.Connects), c.ofThe(us)),
		Numbers:  []Number{{"clients' connections per request", c.Of.Connects, c.Control.Connects}},
		Explains: Weight, Share: c.share(us), IsCounted: true,
		Counter: Counter{Setting: ClientKeepAlive, To: "kept connections of clients"},
	}
}

// connectFailures looks for a listen queue that is too short and for ports that have run out.
func connectFailures(c *Case) Finding {
	numbers := []Number{{"errors per request", c.Of.Errors, c.Control.Errors}, {"share of connections retried", c.Of.RetriedShare, c.Control.RetriedShare}}
	f := Finding{Numbers: numbers, Explains: Latency, Share: 1, IsCounted: true, Counter: Counter{Setting: Backlog, To: "a longer listen queue, and kept connections"}}
	const noPorts = "cannot assign requested address"
	failed := func(text string) bool { return strings.Contains(text, noPorts) }
	refused := c.Of.Statuses[502] + c.Of.Statuses[503] - c.Control.Statuses[502] - c.Control.Statuses[503]
	switch {
	case c.Of.Errors-c.Control.Errors >= refusedBound && slices.ContainsFunc(c.Of.ErrorTexts, failed):
		f.Sentence = fmt.Sprintf("ports for outgoing connections ran out: %s of all requests failed", percent(c.Of.Errors))
	case c.Of.RetriedShare-c.Control.RetriedShare >= refusedBound:
		f.Sentence = fmt.Sprintf("%.1f %% of clients' connections took a second or more, as they do when the listen queue overflows and the first packet has to be sent again; with %s it is %.1f %%",
			100*c.Of.RetriedShare, c.Control.Title, 100*c.Control.RetriedShare)
	case refused >= refusedBound && c.Of.front() != nil:
		f.Sentence = fmt.Sprintf("its %s answered %.1f %% of requests with status 502 or 503: the application did not take its connections", c.Of.front().Role, 100*refused)
	}
	return f
}
