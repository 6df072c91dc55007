package observe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/syslog"
)

func accessLogTarget(from *conf.Log) (to accesslog.Target, err error) {
	if !grammar.HasVariables(conf.Text(from.Path)) || strings.HasPrefix(from.Path, syslog.Prefix) {
		return accesslog.ParseTarget(from.Path)
	}
	return accesslog.Target{Path: "logs by variables", HasMany: true}, nil
}

// appendStart appends what precedes a line of an access log: nothing, the start of a message, or
// the path of the line's file. It reports false if the line must not be written.
func (l *accessLog) appendStart(b []byte, x *core.Exchange) ([]byte, bool) {
	switch to := &l.target; {
	case to.Syslog != nil:
		return to.Syslog.AppendStart(b, to.Syslog.Severity(), time.Now()), true
	case to.HasMany:
		if !l.hasRoot(x) {
			return b, false
		}
		path := l.path.Eval(x)
		if !filepath.IsAbs(path) {
			path = l.dir + "/" + path
		}
		// clients choose values of variables: none may lead out of the folder
		if strings.Contains(path+"/", "/../") || !accesslog.IsPath(path) {
			x.Errorf(errorlog.LevelCrit, "access_log: invalid path %q", errorlog.Truncate(path))
			return b, false
		}
		return accesslog.AppendPath(b, path), true
	}
	return b, true
}

// hasRoot reports whether a root with variables exists. As in nginx there is no file of a log
// without it: otherwise clients would create files of names that they invent.
func (l *accessLog) hasRoot(x *core.Exchange) bool {
	if l.root.Constant() {
		return true
	}
	root := l.root.Eval(x)
	if info, err := os.Stat(root); err == nil && info.IsDir() {
		return true
	}
	x.Errorf(errorlog.LevelError, "access_log: testing %q existence failed", errorlog.Truncate(root))
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
	case l.target.Syslog != nil:
		space('\n')
	case l.target.HasMany:
		space(0)
	}
	return append(b, '\n')
}
