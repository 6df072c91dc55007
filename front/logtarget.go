package front

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/syslog"
)

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

// accessLogTarget returns the target of a Log.
func (c *compiler) accessLogTarget(from *conf.Log) (to logTarget, err error) {
	if !grammar.HasVariables(conf.Text(from.Path)) || strings.HasPrefix(from.Path, syslog.Prefix) {
		return newLogTarget(from.Path)
	}
	return logTarget{path: "logs by variables", hasMany: true}, nil
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

// appendStart appends what precedes a line of an access log: nothing, the start of a message, or
// the path of the line's file. It reports false if the line must not be written.
func (l *accessLog) appendStart(b []byte, x *exchange) ([]byte, bool) {
	switch to := &l.target; {
	case to.syslog != nil:
		return to.syslog.AppendStart(b, to.syslog.Severity(), time.Now()), true
	case to.hasMany:
		if !x.hasRoot() {
			return b, false
		}
		path := l.path.eval(x)
		if !filepath.IsAbs(path) {
			path = l.dir + "/" + path
		}
		// clients choose values of variables: none may lead out of the folder
		if strings.Contains(path+"/", "/../") || !accesslog.IsPath(path) {
			x.errorf(levelCrit, "access_log: invalid path %q", truncateLogged(path))
			return b, false
		}
		return accesslog.AppendPath(b, path), true
	}
	return b, true
}

// hasRoot reports whether a root with variables exists. As in nginx there is no file of a log
// without it: otherwise clients would create files of names that they invent.
func (x *exchange) hasRoot() bool {
	f := x.loc.files
	if f.alias || f.root.constant() {
		return true
	}
	root := f.root.eval(x)
	if info, err := os.Stat(root); err == nil && info.IsDir() {
		return true
	}
	x.errorf(levelError, "access_log: testing %q existence failed", truncateLogged(root))
	return false
}

// endLine ends a line, which begins at an offset. Bytes that would be taken for the start of
// another one are replaced by spaces.
func (l *accessLog) endLine(b []byte, start int) []byte {
	space := func(c byte) {
		for line := b[start:]; ; {
			i := bytes.IndexByte(line, c)
			if i < 0 {
				return
			}
			line[i] = ' '
		}
	}
	switch {
	case l.target.syslog != nil:
		space('\n')
	case l.target.hasMany:
		space(0)
	}
	return append(b, '\n')
}

// ReopenLogs reopens the files of all logs, which is done after they have been renamed. A log whose
// file cannot be opened keeps the old one. One that hangs does not delay the others.
func (h *Handler) ReopenLogs(ctx context.Context) error {
	logs := inUse[*accesslog.File](&h.state.logs)
	results := make(chan error, len(logs))
	for path, f := range logs {
		go func() {
			err := f.Reopen(ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			results <- err
		}()
	}
	var all []error
	for range logs {
		all = append(all, <-results)
	}
	return errors.Join(all...)
}
