package contender

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/proc"
)

// portTries limits the number of ports that are tried.
const portTries = 100

// FreePort returns a TCP port of 127.0.0.1 on which no socket listens. It is below the range of
// outgoing connections, so that no client gets it before the server listens.
func FreePort() (int, error) {
	low := 32768
	first, _, _ := strings.Cut(proc.Setting("net.ipv4.ip_local_port_range"), " ")
	if n, err := strconv.Atoi(first); err == nil {
		low = n
	}
	const lowest = 10_000
	from := min(lowest, low/2)
	var last error
	for range portTries {
		port := from + rand.IntN(max(1, low-from))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("contender: no free port: %w", last)
}

// claims are the ports that the parts of a contender will listen on. A port is free until its
// server listens, which takes a moment. Meanwhile another part, or another process that measures on
// this machine, could choose it, too.
type claims struct{ held []io.Closer }

// claim returns a port that no other process has claimed. choose returns candidates.
func (c *claims) claim(choose func() (int, error)) (int, error) {
	for range portTries {
		port, err := choose()
		if err != nil {
			return 0, err
		}
		// A socket with an abstract name vanishes with its process.
		l, err := net.Listen("unix", "@tare-port-"+strconv.Itoa(port))
		if err == nil {
			c.held = append(c.held, l)
			return port, nil
		}
	}
	return 0, errors.New("contender: no free port: all candidates are claimed")
}

func (c *claims) release() {
	for _, l := range c.held {
		_ = l.Close()
	}
	c.held = nil
}
