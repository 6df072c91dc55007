package front

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tarehq/tare/front/internal/syslog"
)

// level is the severity of an error log line.
type level int

const (
	levelDebug level = iota
	levelInfo
	levelNotice
	levelWarn
	levelError
	levelCrit
	levelAlert
	levelEmerg
)

func (l level) String() string {
	return [...]string{"debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"}[l]
}

func parseLevel(s string) (level, error) {
	if s == "" {
		return levelError, nil
	}
	for l := levelDebug; l <= levelEmerg; l++ {
		if l.String() == s {
			return l, nil
		}
	}
	return 0, fmt.Errorf("error_log: unknown level %q: want debug, info, notice, warn, error, crit, alert or emerg", s)
}

// errorLog is an ErrorLog, compiled.
type errorLog struct {
	minLevel level
	out      io.Writer      // nil writes to logger
	syslog   *syslog.Target // of out; nil for a file
	logger   *log.Logger    // of the program
	next     *errorLog      // a second log, or nil
}

// isEnabled reports whether this log or the next one writes lines of a level.
func (to *errorLog) isEnabled(l level) bool {
	return l >= to.minLevel || to.next != nil && to.next.isEnabled(l)
}

// logf logs an error that concerns no request.
func (to *errorLog) logf(l level, format string, args ...any) {
	if to.isEnabled(l) {
		to.write(l, 0, printable(fmt.Appendf(nil, format, args...)))
	}
}

// write writes a line. connection is the number of the request's connection, or 0.
func (to *errorLog) write(l level, connection int64, b []byte) {
	for ; to != nil; to = to.next {
		switch {
		case l < to.minLevel:
		case to.out == nil:
			to.logger.Printf("front: [%v] %s", l, b)
		case to.syslog != nil:
			line := errorLine(l, connection, bytes.ReplaceAll(b, []byte("\n"), []byte(" ")))
			start := to.syslog.AppendStart(nil, syslog.Severity(levelEmerg-l), time.Now())
			_, _ = to.out.Write(append(start, line...))
		default:
			_, _ = to.out.Write(errorLine(l, connection, b)) // there is nowhere to report an error
		}
	}
}

// errorLine formats a line of an error log as nginx does, so that programs that search nginx's logs
// understand it.
func errorLine(l level, connection int64, text []byte) []byte {
	line := time.Now().AppendFormat(make([]byte, 0, len(text)+64), "2006/01/02 15:04:05")
	line = append(append(append(line, " ["...), l.String()...), "] "...)
	line = append(strconv.AppendInt(line, int64(os.Getpid()), 10), "#0: "...)
	if connection != 0 {
		line = append(strconv.AppendInt(append(line, '*'), connection, 10), ' ')
	}
	return append(append(line, text...), '\n')
}

// lostLines returns the line that reports lost lines.
func lostLines(lines int, why error) []byte {
	return errorLine(levelAlert, 0, fmt.Appendf(nil, "%d lines lost: %v", lines, why))
}

// maxLogged bounds a string from a client in an error log line. It is the length of nginx's longest
// header line.
const maxLogged = 8 << 10

// truncateLogged truncates a foreign string to what a line may have.
func truncateLogged(s string) string { return s[:min(len(s), maxLogged)] }

// printable escapes control characters and invalid UTF-8 as Go does in a string.
func printable(text []byte) []byte {
	const first, last = ' ', '~'
	if !bytes.ContainsFunc(text, func(r rune) bool { return r < first || r > last }) {
		return text
	}
	b := make([]byte, 0, 2*len(text))
	for rest := text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, rest[0])
		case strconv.IsPrint(r):
			b = append(b, rest[:n]...)
		default:
			quoted := strconv.QuoteRune(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		rest = rest[n:]
	}
	return b
}
