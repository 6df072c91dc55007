package wrk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/tarehq/tare/internal/dialect"
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
		return unreachable("resolve", u.Hostname(), service, reason)
	}
	reason := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		reason = errno.Error()
		reason = strings.ToUpper(reason[:1]) + reason[1:] // text of strerror(3)
	}
	return unreachable("connect to", u.Hostname(), service, reason)
}

// unreachable is the error, in wrk's words, if the server cannot be reached.
func unreachable(action, host, service, reason string) error {
	return &dialect.Exit{Code: exitCode, Stderr: fmt.Sprintf("unable to %s %s:%s %s\n", action, host, service, reason)}
}
