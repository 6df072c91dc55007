package accesslog

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/spool"
	"github.com/tarehq/tare/front/internal/syslog"
)

// closeTimeout bounds how long CloseSoon waits for the last lines.
const closeTimeout = 5 * time.Second

// Target is where the lines of a log go.
type Target struct {
	Path    string         // a file, or for syslog; for messages if it has variables
	AtOnce  bool           // lines are not gathered: an error log
	Syslog  *syslog.Target // nil for files
	HasMany bool           // the path has variables: lines name their files
}

// ParseTarget returns the target of a path without variables.
func ParseTarget(path string) (to Target, err error) {
	to.Path = path
	if strings.HasPrefix(path, syslog.Prefix) {
		to.Syslog, err = syslog.Parse(path)
	} else if strings.HasPrefix(path, "memory:") || strings.HasPrefix(path, "|") {
		err = fmt.Errorf("%q: unsupported log: want a file, or syslog: and options", path)
	}
	return to, err
}

// Open opens the target, which may block, fill or break without blocking requests. openPath opens
// files; nil opens them by path. report receives what happens to lines, and lost makes the line
// about lost ones.
func (to *Target) Open(openPath func(path string) (io.WriteCloser, error), report func(text string),
	lost func(lines int, why error) []byte) (*spool.Spool, error) {
	if openPath == nil {
		openPath = openByPath
	}
	gather, open := flushInterval, func() (io.WriteCloser, error) { return openPath(to.Path) }
	if to.Syslog != nil || to.HasMany { // such a line would have no start of a message, and no file
		lost = nil
	}
	if to.Syslog != nil || to.AtOnce {
		gather = 0
	}
	switch {
	case to.Syslog != nil:
		open = func() (io.WriteCloser, error) { return to.Syslog.Open(report), nil }
	case to.HasMany:
		open = func() (io.WriteCloser, error) { return Many(openPath, report), nil }
	}
	out, err := open()
	if err != nil {
		return nil, err
	}
	return spool.New(out, spool.Config{Gather: gather, Patience: writeTimeout, Open: open, Lost: lost,
		Report: report}), nil
}

func openByPath(path string) (io.WriteCloser, error) {
	switch path { // they can be opened by name only if they are files
	case "/dev/stdout":
		return NopCloser{os.Stdout}, nil
	case "/dev/stderr":
		return NopCloser{os.Stderr}, nil
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// NopCloser is an output that others use, too: it is not closed.
type NopCloser struct{ io.Writer }

// Close implements io.Closer.
func (NopCloser) Close() error { return nil }

// CloseSoon closes a log. It waits a few seconds for the last lines. An error reports lost lines.
func CloseSoon(f *spool.Spool) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return f.Close(ctx)
}
