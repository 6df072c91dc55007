package core

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/errorlog"
)

func (c *Compiler) compileErrorLog() (err error) {
	var inUse *errorlog.Log
	if c.Config.ErrorLog != nil {
		inUse, err = c.errorLog(c.Config.ErrorLog)
		c.Plan.errors = inUse
		c.Options.configLog.CompareAndSwap(nil, inUse) // for messages about the first Config
	}
	c.Plan.Prepares = append(c.Plan.Prepares, func() { c.Options.configLog.Store(inUse) })
	return err
}

// errorLog compiles an ErrorLog; nil is the Config's.
func (c *Compiler) errorLog(e *conf.ErrorLog) (*errorlog.Log, error) {
	if e == nil {
		return c.Plan.errors, nil
	}
	least, err := errorlog.ParseLevel(e.Level)
	if err != nil {
		return nil, fmt.Errorf("error_log: %w", err)
	}
	out := &errorlog.Log{MinLevel: least}
	if e.Next != nil {
		if out.Next, err = c.errorLog(e.Next); err != nil {
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
	out.Syslog, to.AtOnce = to.Syslog, true
	if out.Out, err = c.LogFile(to, errorlog.LostLines); err != nil {
		return nil, fmt.Errorf("error_log: %w", err)
	}
	return out, nil
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

// logFileKey is the path of a log, or "" for those that have many files.
type logFileKey string

// LogFile returns the file of a target, which all plans share. lost makes the line about lost
// lines.
func (c *Compiler) LogFile(to accesslog.Target, lost func(lines int, why error) []byte) (*accesslog.File, error) {
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
	open := func() (*accesslog.File, error) { return to.OpenFile(c.Options.OpenLog, report, lost) }
	return Shared(c, logFileKey(key), func() (*accesslog.File, error) {
		return AcquireForPlan(c, &state.Logs, key, open, func(f *accesslog.File) {
			if err := accesslog.CloseSoon(f); err != nil {
				err = fmt.Errorf("log %s: %w", to.Path, err)
				state.logFailure.CompareAndSwap(nil, &err)
			}
		})
	})
}
