package ab

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/tarehq/tare/load"
)

// cause is why a request failed, as far as ab makes a difference.
type cause uint8

const (
	success     cause = iota // a whole response, whatever it says
	closed                   // the connection ended without one, which ab takes for a short response
	reset                    // reading failed
	unconnected              // connecting did
	unsent                   // sending did, which ab goes on after
	timeout
)

// causeOf tells apart, by the text of the run's first error, what the generator counts as one:
// a connection that ended and one that broke.
func causeOf(f load.Failure, first string) cause {
	switch f {
	case load.FailedConnect:
		return unconnected
	case load.FailedTimeout:
		return timeout
	case load.FailedWrite:
		return unsent
	case load.FailedRead:
		if strings.Contains(first, syscall.ECONNRESET.Error()) {
			return reset
		}
		return closed
	}
	return success
}

// stop is ab's end before its time: what it says on stderr, and its exit code.
type stop struct {
	text string
	code int
}

// pollTimeout is what ab says when no connection had anything to tell for the time of -s.
func pollTimeout() *stop {
	const timeUp = 70007 // APR_TIMEUP
	return &stop{fmt.Sprintf("apr_pollset_poll: The timeout specified has expired (%d)\n", timeUp), timeUp & 0xff}
}

// socketStop is what ab says when a socket failed and -r is missing. Which call failed depends
// on when the kernel told: most connections are refused when ab begins to read.
func socketStop(why cause, first string) *stop {
	errno, call := syscall.ECONNRESET, "apr_socket_recv"
	if why == unconnected {
		errno = syscall.ECONNREFUSED
		for _, e := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT, syscall.EADDRNOTAVAIL, syscall.EMFILE} {
			if strings.Contains(first, e.Error()) {
				errno = e
			}
		}
	}
	switch errno {
	case syscall.ENETUNREACH, syscall.EADDRNOTAVAIL:
		call = "\nTest aborted after 10 failures\n\napr_socket_connect()"
	case syscall.EMFILE:
		call = "socket"
	}
	text := errno.Error()
	return &stop{fmt.Sprintf("%s: %s%s (%d)\n", call, strings.ToUpper(text[:1]), text[1:], int(errno)), int(errno)}
}

// GivesUp reports whether ab ends: it does when a socket fails, without -r.
func (c *Command) GivesUp(e *load.Errors) bool {
	return !c.continueOnError && (e.Connect > 0 || e.Read > 0 && causeOf(load.FailedRead, e.First) == reset)
}
