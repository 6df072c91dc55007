package front

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/grammar"
)

const (
	combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
)

// accessLog is a Log, compiled.
type accessLog struct {
	target        accesslog.Target
	path          text   // if target has many files
	dir           string // of relative paths
	root          text   // if target has many files: it must exist, if it has variables
	file          *accesslog.File
	line          []logPiece
	buffers       *accesslog.Buffers
	condition     text
	isConditional bool // logs only if condition is true
}

// logPiece is a piece of a line: a literal, or a variable.
type logPiece struct {
	literal     string
	appendValue func(b []byte, x *exchange) []byte // nil for a literal
}

// accessLogModule writes access logs: access_log.
func accessLogModule() module {
	return module{compile: func(c *compiler, s *conf.Settings, _ slot) (effect, error) {
		logs, err := c.logs(s)
		if logs == nil || err != nil {
			return effect{}, err
		}
		return effect{rules: logs, observes: true, log: logs.write}, nil
	}}
}

// accessLogs are the access logs of a location.
type accessLogs []accessLog

func (all accessLogs) write(x *exchange) {
	for i := range all {
		if l := &all[i]; !l.isConditional || l.condition.isTrue(x) {
			l.write(x)
		}
	}
}

func (l *accessLog) write(x *exchange) {
	buffer := l.buffers.Get()
	b, ok := l.appendStart((*buffer)[:0], x)
	if !ok {
		l.buffers.Put(buffer, b)
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
	l.buffers.Put(buffer, b)
}

// logs compiles the access logs of a location.
func (c *compiler) logs(s *conf.Settings) (accessLogs, error) {
	var all accessLogs
	for _, from := range s.Logs {
		if from.Path == "" {
			continue
		}
		l, err := c.accessLog(from, &s.Files)
		if err != nil {
			return nil, fmt.Errorf("access_log: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

func (c *compiler) accessLog(from conf.Log, files *conf.Files) (l accessLog, err error) {
	format, err := c.logFormat(cmp.Or(from.Format, "combined"))
	if err != nil {
		return l, err
	}
	l.buffers = &c.state.logBuffers
	if l.line, err = c.logLine(format); err != nil {
		return l, err
	}
	if l.isConditional = from.If != ""; l.isConditional {
		if l.condition, err = c.text(from.If); err != nil {
			return l, err
		}
	}
	c.plan.needs |= needsStartTime
	lost := accesslog.Combined.Lost
	if format.Escape == "json" {
		lost = accesslog.JSON.Lost
	}
	if l.target, err = c.accessLogTarget(&from); err != nil {
		return l, err
	}
	if l.dir = from.Dir; l.target.HasMany {
		if l.path, err = c.text(conf.Text(from.Path)); err != nil {
			return l, err
		}
		if files.Alias == "" {
			if l.root, err = c.text(files.Root); err != nil {
				return l, err
			}
		}
	}
	l.file, err = c.logFile(l.target, lost)
	return l, err
}

func (c *compiler) logFormat(name string) (conf.LogFormat, error) {
	for _, f := range c.config.LogFormats {
		if f.Name == name {
			return f, nil
		}
	}
	if name == "combined" {
		return conf.LogFormat{Name: name, Text: combined}, nil
	}
	return conf.LogFormat{}, fmt.Errorf("unknown format %q", name)
}

// logLine compiles a format.
func (c *compiler) logLine(f conf.LogFormat) ([]logPiece, error) {
	pieces, err := grammar.Pieces(f.Text)
	if err != nil {
		return nil, fmt.Errorf("%w in the format %q", err, f.Name)
	}
	line := make([]logPiece, len(pieces))
	for i, p := range pieces {
		switch {
		case p.IsLiteral():
			line[i].literal = p.Source
		case p.Group > 0:
			return nil, fmt.Errorf("unknown variable %s in the format %q", p.Source, f.Name)
		default:
			if line[i].appendValue, err = c.logVariable(p.Variable, f.Escape); err != nil {
				return nil, fmt.Errorf("%w in the format %q", err, f.Name)
			}
		}
	}
	return line, nil
}

// logVariable compiles a variable of a line. nginx writes a dash for variables that are not set,
// and nothing for empty ones.
func (c *compiler) logVariable(name, escape string) (func([]byte, *exchange) []byte, error) {
	value, err := c.variable(name)
	if err != nil {
		return nil, err
	}
	esc, known := escaper(escape), c.core[name]
	if known.appendTo != nil {
		return func(b []byte, x *exchange) []byte { return known.appendTo(b, x, esc) }, nil
	}
	slot, isGroup := c.slots[name] // a group of a regular expression, or not set yet
	isAssigned := c.assigned[name] && !c.isOverlaid(name)
	isGroup = isGroup && !isAssigned && !known.isCached
	dash := escape == "" && !isAssigned && !known.isSetWhenEmpty
	return func(b []byte, x *exchange) []byte {
		s := value(x)
		if s == "" && dash && (!isGroup || !x.has(slot)) && (known.isSet == nil || !known.isSet(x)) {
			return append(b, '-')
		}
		return esc(b, s)
	}, nil
}

func escaper(e string) escapeFunc {
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
	if !strings.ContainsAny(s, "\r\n") {
		return append(b, s...)
	}
	for i := range len(s) {
		switch s[i] {
		case '\n':
			b = append(b, `\x0A`...)
		case '\r':
			b = append(b, `\x0D`...)
		default:
			b = append(b, s[i])
		}
	}
	return b
}
