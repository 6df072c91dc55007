package explain

import (
	"fmt"
)

const (
	// fewConnections is the number of additional connections per request from which they are a
	// cause. Servers close a connection after some hundred requests; below five requests, most of
	// what keep-alive saves is lost.
	fewConnections = 0.2

	// connectionUs is about the system time that a TCP connection on loopback costs both sides,
	// from connect to close. It only ranks causes.
	connectionUs = 40
)

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
