package observe

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/spool"
	"github.com/tarehq/tare/front/internal/syslog"
)

const (
	combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
)

type accessLog struct {
	target    accesslog.Target
	path      core.Text // if target has many files
	dir       string    // of relative paths
	root      core.Text // if target has many files: it must exist, if it has variables
	file      *spool.Spool
	line      []logPiece
	condition core.Text // that must be true; always if it is empty
}

// logPiece is a piece of a line: a literal, or a variable.
type logPiece struct {
	literal     string
	appendValue func(b []byte, x *core.Exchange) []byte // nil for a literal
}

// AccessLogModule writes access logs: access_log.
func AccessLogModule() core.Module {
	return core.Module{Compile: compileAccessLogs}
}

type accessLogs []accessLog

func (all accessLogs) write(x *core.Exchange) {
	for i := range all {
		if l := &all[i]; l.condition.Empty() || l.condition.IsTrue(x) {
			l.write(x)
		}
	}
}

func (l *accessLog) write(x *core.Exchange) {
	buffers := &x.Plan.State.LogBuffers
	buffer := buffers.Get()
	b, ok := l.appendStart((*buffer)[:0], x)
	if !ok {
		buffers.Put(buffer, b)
		return
	}
	start := len(b)
	for i := range l.line {
		if p := &l.line[i]; p.appendValue == nil {
			b = append(b, p.literal...)
		} else {
			b = p.appendValue(b, x)
		}
	}
	b = l.endLine(b, start)
	_, _ = l.file.Write(b) // Write returns no error: lost lines are counted
	buffers.Put(buffer, b)
}

func compileAccessLogs(c *core.Compiler, s *conf.Settings, _ core.Slot) (e core.Effect) {
	var all accessLogs
	for _, from := range s.Logs {
		if from.Path != "" {
			all = append(all, compileAccessLog(c, from, &s.Files))
		}
	}
	if all != nil {
		e = core.Effect{Rules: all, Log: all.write}
	}
	return e
}

func compileAccessLog(c *core.Compiler, from conf.Log, files *conf.Files) (l accessLog) {
	format := logFormat(c, cmp.Or(from.Format, "combined"))
	l.line = logLine(c, format)
	l.condition = c.Text("access_log", from.If)
	c.Plan.Needs |= core.NeedsStartTime
	lost := accesslog.Lost
	if format.Escape == "json" {
		lost = accesslog.LostJSON
	}
	if grammar.HasVariables(conf.Text(from.Path)) && !strings.HasPrefix(from.Path, syslog.Prefix) {
		l.target = accesslog.Target{Path: "logs by variables", HasMany: true}
	} else {
		var err error
		l.target, err = accesslog.ParseTarget(from.Path)
		c.Check("access_log", err)
	}
	if l.dir = from.Dir; l.target.HasMany {
		l.path = c.Text("access_log", conf.Text(from.Path))
		if files.Alias == "" {
			l.root = c.Text("root", files.Root)
		}
	}
	l.file = c.LogFile("access_log", l.target, lost)
	return l
}

func logFormat(c *core.Compiler, name string) conf.LogFormat {
	all := append(slices.Clip(c.Config.LogFormats), conf.LogFormat{Name: "combined", Text: combined})
	at := slices.IndexFunc(all, func(f conf.LogFormat) bool { return f.Name == name })
	if at < 0 {
		c.Failf("access_log: unknown format %q", name)
	}
	return all[at]
}

func logLine(c *core.Compiler, f conf.LogFormat) []logPiece {
	what := fmt.Sprintf("access_log: format %q", f.Name)
	pieces, err := grammar.Pieces(f.Text)
	c.Check(what, err)
	line := make([]logPiece, len(pieces))
	for i, p := range pieces {
		switch {
		case p.IsLiteral():
			line[i].literal = p.Source
		case p.Group > 0:
			c.Failf("%s: unknown variable %s", what, p.Source)
		default:
			line[i].appendValue, err = logVariable(c, p.Variable, f.Escape)
			c.Check(what, err)
		}
	}
	return line
}

// logVariable compiles a variable of a line. nginx writes a dash for variables that are not set,
// and nothing for empty ones.
func logVariable(c *core.Compiler, name, escape string) (func([]byte, *core.Exchange) []byte, error) {
	value, err := c.Variable(name)
	if err != nil {
		return nil, err
	}
	esc, known := escaper(escape), c.Known[name]
	if known.AppendTo != nil {
		return func(b []byte, x *core.Exchange) []byte { return known.AppendTo(b, x, esc) }, nil
	}
	slot, isGroup := c.Slots[name] // a group of a regular expression, or not set yet
	isAssigned := c.Assigned[name] && !c.IsOverlaid(name)
	isGroup = isGroup && !isAssigned && !known.IsCached
	dash := escape == "" && !isAssigned
	return func(b []byte, x *core.Exchange) []byte {
		s := value(x)
		if s == "" && dash && (!isGroup || !x.Has(slot)) && (known.IsSet == nil || !known.IsSet(x)) {
			return append(b, '-')
		}
		return esc(b, s)
	}, nil
}

func escaper(e string) core.EscapeFunc {
	switch e {
	case "json":
		return accesslog.AppendJSON
	case "none":
		return appendUnescaped
	}
	return accesslog.AppendEscaped
}

// appendUnescaped appends a string unchanged, except for line ends. They may come from a client,
// decoded, and would forge lines; nginx writes them.
func appendUnescaped(b []byte, s string) []byte {
	return append(b, strings.ReplaceAll(strings.ReplaceAll(s, "\n", `\x0A`), "\r", `\x0D`)...)
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
