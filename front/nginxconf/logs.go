package nginxconf

import (
	"errors"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/syslog"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// logFormat translates log_format NAME [escape=HOW] TEXT....
func (t *translator) logFormat(d *syntax.Directive) {
	f := conf.LogFormat{Name: d.Args[0]}
	rest := d.Args[1:]
	if how, ok := strings.CutPrefix(rest[0], "escape="); ok {
		rest = rest[1:]
		switch how {
		case "default":
		case "json", "none":
			f.Escape = how
		default:
			t.errorf(d, "invalid parameter %s (must be escape=default, escape=json or escape=none)",
				grammar.Quote("escape="+how))
		}
	}
	f.Text = t.reportedText(d, t.formatText(d, rest))
	if t.formats[f.Name] {
		t.errorf(d, "duplicate log format %s", grammar.Quote(f.Name))
		return
	}
	t.formats[f.Name] = true
	t.config.LogFormats = append(t.config.LogFormats, f)
}

// formatText joins the arguments of log_format. A variable ends with its argument, and $1 is not a
// group.
func (t *translator) formatText(d *syntax.Directive, args []string) string {
	var b strings.Builder
	for _, arg := range args {
		pieces, err := grammar.Pieces(conf.Text(arg))
		t.check(d, err)
		for _, p := range pieces {
			if p.Group > 0 {
				t.errorf(d, "unknown variable %s", p.Source)
			}
			if p.Variable != "" {
				p.Source = "${" + p.Variable + "}"
			}
			b.WriteString(p.Source)
		}
	}
	return b.String()
}

// accessLogs translates the logs of a scope. Unlike nginx there is no default log. Logs beside off
// are not written, but must be valid.
func (t *translator) accessLogs(s *scope) []conf.Log {
	var logs []conf.Log
	isOff := false
	for _, d := range s.all("access_log") {
		if d.Args[0] == "off" {
			if len(d.Args) > 1 {
				t.errorf(d, "unexpected %s after off", grammar.Quote(d.Args[1]))
			}
			isOff = true
			continue
		}
		if log, ok := t.accessLog(d); ok {
			logs = append(logs, log)
		}
	}
	if isOff {
		return nil
	}
	return logs
}

func (t *translator) accessLog(d *syntax.Directive) (conf.Log, bool) {
	log := conf.Log{Path: d.Args[0]}
	switch {
	case strings.HasPrefix(log.Path, syslog.Prefix):
		_, err := syslog.Parse(log.Path)
		t.check(d, err)
	case hasVariable(d.Args[0]):
		log.Path, log.Dir = string(t.reportedText(d, t.path(d, log.Path))), t.prefix
	default:
		log.Path = t.path(d, log.Path)
	}
	rest := d.Args[1:]
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "if=") {
		if log.Format = rest[0]; t.ok() && !t.formats[log.Format] {
			t.errorf(d, "unknown log format %s (no log_format defines it)", grammar.Quote(log.Format))
		}
		rest = rest[1:]
	}
	const compressed = "let logrotate compress the file"
	t.params(d, rest,
		value("if=", &log.If, func(text string) (conf.Text, error) { return t.reportedText(d, text), nil }),
		t.ignoredParam(d, "buffer=", "lines are always buffered, in limited memory", func(text string) error {
			if strings.HasPrefix(log.Path, syslog.Prefix) || hasVariable(d.Args[0]) {
				return errors.New("a log to syslog, or with variables in its path, has no buffer")
			}
			return aboveZero(grammar.ParseSize(text))
		}),
		t.ignoredParam(d, "flush=", "lines are written as soon as possible", func(text string) error {
			return aboveZero(grammar.ParseTime(text))
		}),
		t.unsupportedParam(d, "gzip", compressed), t.unsupportedParam(d, "gzip=", compressed))
	if slices.ContainsFunc(rest, func(arg string) bool { return arg == "gzip" || strings.HasPrefix(arg, "gzip=") }) {
		return log, false
	}
	if log.Format == "combined" {
		log.Format = ""
	}
	return log, true
}
