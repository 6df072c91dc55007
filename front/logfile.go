package front

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/syslog"
)

// logCloseTimeout bounds how long closing a log waits for the last lines.
const logCloseTimeout = 5 * time.Second

// logTarget is where the lines of a log go.
type logTarget struct {
	path    string         // a file, or for syslog; for messages if it has variables
	atOnce  bool           // lines are not gathered: an error log
	syslog  *syslog.Target // nil for files
	hasMany bool           // the path has variables: lines name their files
}

// newLogTarget returns the target of a path without variables.
func newLogTarget(path string) (to logTarget, err error) {
	to.path = path
	if strings.HasPrefix(path, syslog.Prefix) {
		to.syslog, err = syslog.Parse(path)
	} else if strings.HasPrefix(path, "memory:") || strings.HasPrefix(path, "|") {
		err = fmt.Errorf("%q: unsupported log: want a file, or syslog: and options", path)
	}
	return to, err
}

// logFile returns the file of a target, which all plans share. lost makes the line about lost
// lines.
func (c *compiler) logFile(to logTarget, lost func(lines int, why error) []byte) (*accesslog.File, error) {
	key := to.path
	if to.hasMany { // which is no path
		key = ""
	}
	if f := c.logFiles[key]; f != nil {
		return f, nil
	}
	f, release, err := acquire(&c.state.logs, key,
		func() (*accesslog.File, error) { return to.open(c.options, lost) }, closeLog)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	if c.logFiles == nil {
		c.logFiles = make(map[string]*accesslog.File)
	}
	c.logFiles[key] = f
	return f, nil
}

// open opens the target.
func (to *logTarget) open(o *options, lost func(lines int, why error) []byte) (*accesslog.File, error) {
	report := func(text string) { o.logger().Printf("front: %s: %s", to.path, printable([]byte(text))) }
	openFile := openLogFile
	if o.openLog != nil {
		openFile = o.openLog
	}
	open := func() (io.WriteCloser, error) { return openFile(to.path) }
	if to.syslog != nil || to.hasMany { // such a line would have no start of a message, and no file
		lost = func(int, error) []byte { return nil }
	}
	switch {
	case to.syslog != nil:
		open = func() (io.WriteCloser, error) { return to.syslog.Open(report), nil }
	case to.hasMany:
		open = accesslog.Many(openFile, report)
	case !to.atOnce:
		return accesslog.Open(open, false, lost, report)
	}
	return accesslog.OpenAtOnce(open, lost, report)
}

func openLogFile(path string) (io.WriteCloser, error) {
	switch path { // they can be opened by name only if they are files
	case "/dev/stdout":
		return sharedOutput{os.Stdout}, nil
	case "/dev/stderr":
		return sharedOutput{os.Stderr}, nil
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// sharedOutput is a file that others use, too: it is not closed.
type sharedOutput struct{ io.Writer }

func (sharedOutput) Close() error { return nil }

func closeLog(f *accesslog.File) {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	_ = f.Close(ctx) // the spool has reported lost lines
}
