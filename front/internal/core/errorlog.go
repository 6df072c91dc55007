package core

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/spool"
)

func (c *Compiler) compileErrorLog() {
	var inUse *errorlog.Log
	if c.Config.ErrorLog != nil {
		inUse = c.errorLog(c.Config.ErrorLog)
		c.Plan.errors = inUse
		c.Options.configLog.CompareAndSwap(nil, inUse) // for messages about the first Config
	}
	c.Plan.Prepares = append(c.Plan.Prepares, func() { c.Options.configLog.Store(inUse) })
}

// errorLog compiles an ErrorLog; nil is the Config's.
func (c *Compiler) errorLog(e *conf.ErrorLog) *errorlog.Log {
	if e == nil {
		return c.Plan.errors
	}
	least, err := errorlog.ParseLevel(e.Level)
	c.Check("error_log", err)
	path := e.Path
	if path == "stderr" {
		path = "/dev/stderr"
	}
	to, err := accesslog.ParseTarget(path)
	c.Check("error_log", err)
	to.AtOnce = true
	out := &errorlog.Log{MinLevel: least, Syslog: to.Syslog, Out: c.LogFile("error_log", to, errorlog.LostLines)}
	if e.Next != nil {
		out.Next = c.errorLog(e.Next)
	}
	return out
}

// Errorf logs an error about the request, in a line like nginx's. Foreign strings should be quoted.
// What would forge a line or control a terminal is escaped: an error may contain a client's path.
func (x *Exchange) Errorf(l errorlog.Level, format string, args ...any) {
	if x.ErrorLog().IsEnabled(l) {
		x.LogError(l, errorlog.Printable(fmt.Appendf(nil, format, args...)))
	}
}

// LogError logs a printable error about the request.
func (x *Exchange) LogError(l errorlog.Level, text []byte) {
	x.ErrorLog().Write(l, x.connectionNumber(), x.appendRequest(text))
}

// ErrorLog returns the error log of the exchange's location.
func (x *Exchange) ErrorLog() *errorlog.Log {
	if x.Loc != nil && x.Loc.errors != nil {
		return x.Loc.errors
	}
	return x.Plan.errors
}

func (x *Exchange) appendRequest(b []byte) []byte {
	b = append(append(b, ", client: "...), x.ClientAddr()...)
	if x.Host != nil {
		b = fmt.Appendf(b, ", server: %s", x.Host.name)
	}
	b = fmt.Appendf(b, ", request: %q", errorlog.Truncate(requestLine(x)))
	if x.Parent != nil {
		b = fmt.Appendf(b, ", subrequest: %q", errorlog.Truncate(x.Path))
	}
	if x.UpstreamURL != "" {
		b = fmt.Appendf(b, ", upstream: %q", errorlog.Truncate(x.UpstreamURL))
	}
	if x.HostHeader != "" {
		b = fmt.Appendf(b, ", host: %q", errorlog.Truncate(x.HostHeader))
	}
	if from := x.Request.Referer(); from != "" {
		b = fmt.Appendf(b, ", referrer: %q", errorlog.Truncate(from))
	}
	return b
}

// LogFile returns the file of a directive's target, which all plans share. lost makes the line
// about lost lines.
func (c *Compiler) LogFile(directive string, to accesslog.Target,
	lost func(lines int, why error) []byte) *spool.Spool {
	key := to.Path
	if to.HasMany { // which is no path
		key = ""
	}
	logger := c.Options.Logger()
	if to.AtOnce { // an error log does not report its own failures to itself
		logger = c.Options.programLog().Logger
	}
	report := func(text string) { logger.Printf("front: %s: %s", to.Path, errorlog.Printable([]byte(text))) }
	state := c.State
	open := func() (*spool.Spool, error) { return to.Open(c.Options.OpenLog, report, lost) }
	f, err := AcquireForPlan(c, &state.Logs, key, open, func(f *spool.Spool) {
		if err := accesslog.CloseSoon(f); err != nil {
			err = fmt.Errorf("log %s: %w", to.Path, err)
			state.logFailure.CompareAndSwap(nil, &err)
		}
	})
	c.Check(directive, err)
	return f
}
