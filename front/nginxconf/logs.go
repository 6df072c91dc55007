package nginxconf

import (
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
		case "json":
			f.Escape = "json"
		case "none":
			f.Escape = "none"
		default:
			t.errorf(d, "invalid parameter %s (must be escape=default, escape=json or escape=none)",
				grammar.Quote("escape="+how))
		}
	}
	f.Text = t.reportedText(d, strings.Join(rest, ""))
	if t.formats[f.Name] {
		t.errorf(d, "duplicate log format %s", grammar.Quote(f.Name))
		return
	}
	t.formats[f.Name] = true
	t.config.LogFormats = append(t.config.LogFormats, f)
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
		if _, err := syslog.Parse(log.Path); err != nil {
			t.errorf(d, "%v", err)
		}
	case hasVariable(d.Args[0]):
		log.Path, log.Dir = string(t.reportedText(d, t.path(d, log.Path))), t.prefix
	default:
		log.Path = t.path(d, log.Path)
	}
	for i, arg := range d.Args[1:] {
		name, value, has := parameter(arg)
		switch {
		case i == 0 && !strings.HasPrefix(arg, "if="):
			if log.Format = arg; t.ok() && !t.formats[arg] {
				t.errorf(d, "unknown log format %s (no log_format defines it)", grammar.Quote(arg))
			}
		case name == "if" && has:
			log.If = t.reportedText(d, value)
		case arg == "gzip", name == "gzip" && has:
			t.omit(d, "parameter %s is not supported (let logrotate compress the file)", grammar.Quote(arg))
			return log, false
		case name == "buffer" && has:
			if n, err := grammar.ParseSize(value); err != nil || n == 0 {
				t.errorf(d, "invalid size %s (example: buffer=32k)", grammar.Quote(arg))
			}
			if strings.HasPrefix(log.Path, syslog.Prefix) || hasVariable(d.Args[0]) {
				t.errorf(d, "a log to syslog, or with variables in its path, cannot have buffer=")
			}
			t.remark(d, "buffer is ignored: lines are always buffered, in limited memory")
		case name == "flush" && has:
			if time, err := grammar.ParseTime(value); err != nil || time == 0 {
				t.errorf(d, "invalid time %s (example: flush=1s)", grammar.Quote(arg))
			}
			t.remark(d, "flush is ignored: lines are written as soon as possible")
		default:
			t.errorf(d, "unknown parameter %s (must be buffer=, flush= or if=)", grammar.Quote(arg))
		}
	}
	if log.Format == "combined" {
		log.Format = ""
	}
	return log, true
}
