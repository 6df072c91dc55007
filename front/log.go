package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/accesslog"
	"github.com/tarehq/tare/front/spool"
)

const (
	// maxLogged is how many bytes a text of a client's has at most in a line of an error log: what nginx takes for a line of a head.
	maxLogged = 8 << 10
	// keptLine is the size up to which the buffer of a line is used again.
	keptLine = 4 << 10
	// gatherLines is the time between two writes of a log: the lines of that time are written together.
	gatherLines = 100 * time.Millisecond
	// logPatience is how long a request waits for a log that takes lines too slowly. After that its line is lost, and counted.
	logPatience = time.Second
	// lastLines is how long closing a log waits for its last lines to be written.
	lastLines = 5 * time.Second

	clfTime = "02/Jan/2006:15:04:05 -0700"

	combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
)

// accessLog is a Log, compiled.
type accessLog struct {
	file  *logFile
	line  []logPiece
	lines *lines
	when  text
	some  bool // those for which when holds
}

// logPiece is a piece of a line: a literal, or a variable.
type logPiece struct {
	literal string
	add     func(b []byte, x *exchange) []byte // nil for a literal
}

// lines are buffers, and the second as it is written: to write it anew for each line would be a third of what one costs.
type lines struct {
	buffers sync.Pool // of *[]byte
	second  atomic.Pointer[loggedSecond]
}

type loggedSecond struct {
	unix int64
	text string
}

// local is a time as the Common Log Format has it.
func (l *lines) local(at time.Time) string {
	s := l.second.Load()
	if s == nil || s.unix != at.Unix() {
		s = &loggedSecond{at.Unix(), at.Format(clfTime)}
		l.second.Store(s)
	}
	return s.text
}

// log is the log phase.
func (x *exchange) log() {
	if x.loc == nil {
		return
	}
	for i := range x.loc.logs {
		if l := &x.loc.logs[i]; !l.some || l.when.holds(x) {
			l.write(x)
		}
	}
}

func (l *accessLog) write(x *exchange) {
	buffer, ok := l.lines.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	b := (*buffer)[:0]
	for i := range l.line {
		if p := &l.line[i]; p.add == nil {
			b = append(b, p.literal...)
		} else {
			b = p.add(b, x)
		}
	}
	b = append(b, '\n')
	_, _ = l.file.Write(b) // it never fails: what is lost is counted
	if cap(b) <= keptLine {
		*buffer = b
		l.lines.buffers.Put(buffer)
	}
}

// logs compiles the access logs of a location.
func (c *compiler) logs(s *Settings) ([]accessLog, error) {
	var all []accessLog
	for _, from := range s.Logs {
		if from.Path == "" {
			continue
		}
		l, err := c.accessLog(from)
		if err != nil {
			return nil, fmt.Errorf("access_log: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

func (c *compiler) accessLog(from Log) (l accessLog, err error) {
	format, err := c.logFormat(cmp.Or(from.Format, "combined"))
	if err != nil {
		return l, err
	}
	l.lines = &c.state.lines
	if l.line, err = c.logLine(format); err != nil {
		return l, err
	}
	if l.some = from.If != ""; l.some {
		if l.when, err = c.text(from.If); err != nil {
			return l, err
		}
	}
	c.plan.timed = true
	lost := accesslog.Combined.Lost
	if format.Escape == EscapeJSON {
		lost = accesslog.JSON.Lost
	}
	l.file, err = c.logFile(from.Path, lost)
	return l, err
}

func (c *compiler) logFormat(name string) (LogFormat, error) {
	for _, f := range c.config.LogFormats {
		if f.Name == name {
			return f, nil
		}
	}
	if name == "combined" {
		return LogFormat{Name: name, Text: combined}, nil
	}
	return LogFormat{}, fmt.Errorf("there is no format %q", name)
}

// logLine compiles a format.
func (c *compiler) logLine(f LogFormat) ([]logPiece, error) {
	var line []logPiece
	for s := string(f.Text); s != ""; {
		literal, rest, found := strings.Cut(s, "$")
		if literal != "" {
			line = append(line, logPiece{literal: literal})
		}
		if !found {
			break
		}
		name, after, err := cutName(rest)
		if err != nil {
			return nil, fmt.Errorf("%w in the format %q", err, f.Name)
		}
		add, err := c.logVariable(strings.ToLower(name), f.Escape)
		if err != nil {
			return nil, fmt.Errorf("%w in the format %q", err, f.Name)
		}
		line, s = append(line, logPiece{add: add}), after
	}
	return line, nil
}

// logVariable compiles a variable of a line. Those that numbers and times make are written without making a string first.
func (c *compiler) logVariable(name string, escape Escape) (func([]byte, *exchange) []byte, error) {
	esc := escaper(escape)
	switch name {
	case "status":
		return func(b []byte, x *exchange) []byte { return strconv.AppendInt(b, int64(x.answerStatus()), 10) }, nil
	case "body_bytes_sent":
		return func(b []byte, x *exchange) []byte { return strconv.AppendInt(b, x.answerBytes(), 10) }, nil
	case "time_local":
		all := &c.state.lines
		return func(b []byte, _ *exchange) []byte { return append(b, all.local(time.Now())...) }, nil
	case "request":
		return func(b []byte, x *exchange) []byte {
			if x.refused != nil {
				return esc(b, bounded(x.refused.line))
			}
			b = append(esc(b, x.r.Method), ' ')
			b = append(esc(b, x.r.RequestURI), ' ')
			return esc(b, x.r.Proto)
		}, nil
	}
	value, err := c.variable(name)
	if err != nil {
		return nil, err
	}
	// nginx knows values that are not there from empty ones, and has a dash for them. Those that are empty in it are these.
	slot, ours := c.slots[name]
	ours = ours && !fixed(name)
	group := ours && !c.given[name]
	dash := escape == EscapeDefault && ours == group && !emptyThere(name)
	return func(b []byte, x *exchange) []byte {
		s := value(x)
		if s == "" && dash && (!group || !x.has(slot)) {
			return append(b, '-')
		}
		return esc(b, s)
	}, nil
}

// emptyThere reports whether one of nginx's variables is there even if it is empty.
func emptyThere(name string) bool {
	switch name {
	case "is_args", "https", "request_completion", "host", "server_name", "fastcgi_path_info":
		return true
	}
	return false
}

func escaper(e Escape) func(b []byte, s string) []byte {
	switch e {
	case EscapeJSON:
		return appendJSON
	case EscapeNone:
		return appendBare
	}
	return accesslog.AppendEscaped
}

// appendBare appends a text as it is but for what would end the line, which what clients send has decoded: nginx lets them write lines
// of their own.
func appendBare(b []byte, s string) []byte {
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

// appendJSON appends what can stand in a JSON string, byte by byte as nginx does: what is not UTF-8 stays so.
func appendJSON(b []byte, s string) []byte {
	const hex, short = "0123456789ABCDEF", "btn?fr" // from 8 on
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch >= ' ':
			b = append(b, ch)
		case ch >= '\b' && ch <= '\r' && ch != '\v':
			b = append(b, '\\', short[ch-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		}
	}
	return b
}

// logFile is a file that lines are written to, and how many could not be.
type logFile struct {
	*spool.Spool
	lost atomic.Int64
}

// logFile returns that of a path, which all plans share. lost makes the line that says how many others were lost, and why.
func (c *compiler) logFile(path string, lost func(lines int, why error) []byte) (*logFile, error) {
	if f := c.logFiles[path]; f != nil {
		return f, nil
	}
	if strings.Contains(path, "$") {
		return nil, fmt.Errorf("%q: the name of a log has no variables", path)
	}
	if strings.HasPrefix(path, "syslog:") || strings.HasPrefix(path, "memory:") || strings.HasPrefix(path, "|") {
		return nil, fmt.Errorf("%q: a log is a file; what passes lines on can read one", path)
	}
	f, giveBack, err := take(&c.state.logs, path, func() (*logFile, error) { return openLog(path, c.options, lost) }, (*logFile).close)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, giveBack)
	if c.logFiles == nil {
		c.logFiles = make(map[string]*logFile)
	}
	c.logFiles[path] = f
	return f, nil
}

func openLog(path string, o *options, lost func(lines int, why error) []byte) (*logFile, error) {
	open := func() (io.WriteCloser, error) { return openLogFile(path) }
	if o.openLog != nil {
		open = func() (io.WriteCloser, error) { return o.openLog(path) }
	}
	out, err := open()
	if err != nil {
		return nil, err
	}
	f := &logFile{}
	f.Spool = spool.New(out, spool.Config{
		Gather:   gatherLines,
		Patience: logPatience,
		Open:     open,
		Lost: func(lines int, why error) []byte {
			f.lost.Add(int64(lines))
			return lost(lines, why)
		},
		Report: func(text string) { o.logger().Printf("front: %s: %s", path, text) },
	})
	return f, nil
}

func openLogFile(path string) (io.WriteCloser, error) {
	switch path { // which are opened by name only where they are files
	case "/dev/stdout":
		return keptOpen{os.Stdout}, nil
	case "/dev/stderr":
		return keptOpen{os.Stderr}, nil
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// keptOpen is a file that others use, too.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

func (f *logFile) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastLines)
	defer cancel()
	_ = f.Close(ctx) // what it could not write, it has told of
}

// ReopenLogs opens the files of all logs anew, as it is done once they have been renamed. A log whose file cannot be opened goes on
// with the old one.
func (h *Handler) ReopenLogs(ctx context.Context) error {
	var all []error
	for path, f := range held[*logFile](&h.state.logs) {
		if err := f.Reopen(ctx); err != nil {
			all = append(all, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(all...)
}
