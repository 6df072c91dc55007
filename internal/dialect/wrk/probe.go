package wrk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Probe opens and closes a connection, as wrk does first. Its error has wrk's text.
func (c *Command) Probe(ctx context.Context) error {
	u, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	service := cmp.Or(u.Port(), u.Scheme)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), service))
	if err == nil {
		return conn.Close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		reason := "Temporary failure in name resolution" // texts of gai_strerror(3)
		if dns.IsNotFound {
			reason = "Name or service not known"
		}
		return unreachable(fmt.Sprintf("unable to resolve %s:%s %s", u.Hostname(), service, reason))
	}
	reason := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		reason = errno.Error()
		reason = strings.ToUpper(reason[:1]) + reason[1:] // text of strerror(3)
	}
	return unreachable(fmt.Sprintf("unable to connect to %s:%s %s", u.Hostname(), service, reason))
}

// unreachable is the error, in wrk's words, if the server cannot be reached.
type unreachable string

func (e unreachable) Error() string { return string(e) }

// End prints the error and returns wrk's exit code.
func (e unreachable) End(_, stderr io.Writer) (code int) {
	fmt.Fprintln(stderr, string(e))
	return exitCode
}
