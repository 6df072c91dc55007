package ab

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/load"
)

// cause is why a request failed, as far as ab distinguishes causes.
type cause uint8

const (
	success     cause = iota // a complete response, whatever its status
	closed                   // the connection closed early, which ab counts as a short response
	reset                    // reading failed
	unconnected              // connecting failed
	unsent                   // sending failed; ab continues
	timeout
)

// causeOf returns the cause of a failure. The generator counts closed and reset connections as one
// kind; causeOf distinguishes them by the text of the run's first error.
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

// pollTimeout is ab's exit when no connection had an event within the timeout of -s.
func pollTimeout() *dialect.Exit {
	const timeUp = 70007 // APR_TIMEUP
	return &dialect.Exit{Code: timeUp & 0xff,
		Stderr: fmt.Sprintf("apr_pollset_poll: The timeout specified has expired (%d)\n", timeUp)}
}

// socketStop is ab's exit after a socket error without -r. The failed call depends on when the
// kernel reports the error: most refused connections fail in ab's first read.
func socketStop(why cause, first string) *dialect.Exit {
	errno, call := syscall.ECONNRESET, "apr_socket_recv"
	if why == unconnected {
		errno = syscall.ECONNREFUSED
		for _, e := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT,
			syscall.EADDRNOTAVAIL, syscall.EMFILE} {
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
	return &dialect.Exit{Code: int(errno),
		Stderr: fmt.Sprintf("%s: %s%s (%d)\n", call, strings.ToUpper(text[:1]), text[1:], int(errno))}
}

// givesUp reports whether ab would exit: it does after a socket error without -r.
func (c *Command) givesUp(e *load.Errors) bool {
	return !c.continueOnError && (e.Connect > 0 || e.Read > 0 && causeOf(load.FailedRead, e.First) == reset)
}
