// Package errorlog writes lines of error logs as nginx does.
package errorlog

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/syslog"
	"github.com/tarehq/tare/internal/printable"
)

// Level is the severity of an error log line.
type Level int

const (
	LevelDebug Level = iota
	LevelInfo
	LevelNotice
	LevelWarn
	LevelError
	LevelCrit
	levelAlert
	levelEmerg
)

// String returns the level's name.
func (l Level) String() string { return syslog.Severities()[l.severity()] }

func (l Level) severity() syslog.Severity { return syslog.Severity(levelEmerg - l) }

// ParseLevel parses the name of a level; "" is error.
func ParseLevel(s string) (Level, error) {
	if s == "" {
		return LevelError, nil
	}
	for l := LevelDebug; l <= levelEmerg; l++ {
		if l.String() == s {
			return l, nil
		}
	}
	return 0, fmt.Errorf("invalid level %q (must be debug, info, notice, warn, error, crit, alert or emerg)", s)
}

// Log is an ErrorLog, compiled.
type Log struct {
	MinLevel Level
	Out      io.Writer      // nil writes to logger
	Syslog   *syslog.Target // of out; nil for a file
	Logger   *log.Logger    // of the program
	Next     *Log           // a second log, or nil
}

// IsEnabled reports whether this log or the next one writes lines of a level.
func (to *Log) IsEnabled(l Level) bool {
	return l >= to.MinLevel || to.Next != nil && to.Next.IsEnabled(l)
}

// Logf logs an error that concerns no request.
func (to *Log) Logf(l Level, format string, args ...any) {
	if to.IsEnabled(l) {
		to.Write(l, 0, Printable(fmt.Appendf(nil, format, args...)))
	}
}

// Write writes a line. connection is the number of the request's connection, or 0.
func (to *Log) Write(l Level, connection int64, b []byte) {
	for ; to != nil; to = to.Next {
		switch {
		case l < to.MinLevel:
		case to.Out == nil:
			to.Logger.Printf("front: [%v] %s", l, b)
		case to.Syslog != nil:
			line := errorLine(l, connection, bytes.ReplaceAll(b, []byte("\n"), []byte(" ")))
			start := to.Syslog.AppendStart(nil, l.severity(), time.Now())
			_, _ = to.Out.Write(append(start, line...))
		default:
			_, _ = to.Out.Write(errorLine(l, connection, b)) // there is nowhere to report an error
		}
	}
}

// errorLine formats a line of an error log as nginx does, so that programs that search nginx's logs
// understand it.
func errorLine(l Level, connection int64, text []byte) []byte {
	line := time.Now().AppendFormat(make([]byte, 0, len(text)+64), "2006/01/02 15:04:05")
	line = append(append(append(line, " ["...), l.String()...), "] "...)
	line = append(strconv.AppendInt(line, int64(os.Getpid()), 10), "#0: "...)
	if connection != 0 {
		line = append(strconv.AppendInt(append(line, '*'), connection, 10), ' ')
	}
	return append(append(line, text...), '\n')
}

// LostLines returns the line that reports lost lines.
func LostLines(lines int, why error) []byte {
	return errorLine(levelAlert, 0, fmt.Appendf(nil, "%d lines lost: %v", lines, why))
}

// maxLogged bounds a string from a client in an error log line. It is the length of nginx's longest
// header line.
const maxLogged = 8 << 10

// Truncate truncates a foreign string to what a line may have.
func Truncate(s string) string { return s[:min(len(s), maxLogged)] }

// Printable escapes control characters and invalid UTF-8 as Go does in a string.
func Printable(text []byte) []byte {
	const first, last = ' ', '~'
	if !bytes.ContainsFunc(text, func(r rune) bool { return r < first || r > last }) {
		return text
	}
	return []byte(printable.Text(string(text), ""))
}
