package front

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
)

// errorLog compiles an ErrorLog. Without one, errors are logged to the logger of the options.
func (c *compiler) errorLog(e *conf.ErrorLog) (*errorLog, error) {
	if e == nil {
		return &errorLog{minLevel: levelError, logger: c.options.logger()}, nil
	}
	least, err := parseLevel(e.Level)
	if err != nil {
		return nil, err
	}
	out := &errorLog{minLevel: least}
	if e.Next != nil {
		if out.next, err = c.errorLog(e.Next); err != nil {
			return nil, err
		}
	}
	path := e.Path
	if path == "stderr" {
		path = "/dev/stderr"
	}
	to, err := accesslog.ParseTarget(path)
	if err != nil {
		return nil, fmt.Errorf("error_log: %w", err)
	}
	out.syslog, to.AtOnce = to.Syslog, true
	if out.out, err = c.logFile(to, lostLines); err != nil {
		return nil, fmt.Errorf("error_log: %w", err)
	}
	return out, nil
}

// errorf logs an error about the request, in a line like nginx's. Foreign strings should be quoted.
// What would forge a line or control a terminal is escaped: an error may contain a client's path.
func (x *exchange) errorf(l level, format string, args ...any) {
	if x.errorLog().isEnabled(l) {
		x.logError(l, printable(fmt.Appendf(nil, format, args...)))
	}
}

// logError logs a printable error about the request.
func (x *exchange) logError(l level, text []byte) {
	x.errorLog().write(l, x.connectionNumber(), x.appendRequest(text))
}

// logLocation logs the location that was found.
func (x *exchange) logLocation() {
	x.errorf(levelDebug, "using configuration %q for %q", x.loc.path, truncateLogged(x.path))
}

// errorLog returns the error log of the exchange's location.
func (x *exchange) errorLog() *errorLog {
	if x.loc != nil && x.loc.errors != nil {
		return x.loc.errors
	}
	return &errorLog{minLevel: levelError, logger: x.plan.options.logger()}
}

// appendRequest appends the description of the request.
func (x *exchange) appendRequest(b []byte) []byte {
	b = append(append(b, ", client: "...), x.clientAddr()...)
	if x.host != nil {
		b = fmt.Appendf(b, ", server: %s", x.host.name)
	}
	b = fmt.Appendf(b, ", request: %q", truncateLogged(requestLine(x)))
	if x.parent != nil {
		b = fmt.Appendf(b, ", subrequest: %q", truncateLogged(x.path))
	}
	if x.upstreamURL != "" {
		b = fmt.Appendf(b, ", upstream: %q", truncateLogged(x.upstreamURL))
	}
	b = fmt.Appendf(b, ", host: %q", truncateLogged(x.hostHeader))
	if from := x.r.Referer(); from != "" {
		b = fmt.Appendf(b, ", referrer: %q", truncateLogged(from))
	}
	return b
}
