package nginxconf

import (
	"strings"

	"github.com/tarehq/tare/front"
)

// logFormat translates log_format NAME [escape=HOW] TEXT....
func (t *translator) logFormat(d *directive) {
	f := front.LogFormat{Name: d.args[0]}
	rest := d.args[1:]
	if how, ok := strings.CutPrefix(rest[0], "escape="); ok {
		rest = rest[1:]
		switch how {
		case "default":
		case "json":
			f.Escape = front.EscapeJSON
		case "none":
			f.Escape = front.EscapeNone
		default:
			t.errorf(d, "%s: want escape=default, escape=json or escape=none", shown("escape="+how))
		}
	}
	f.Text = t.told(d, strings.Join(rest, ""))
	if t.formats[f.Name] {
		t.errorf(d, "there is a format %s already", shown(f.Name))
		return
	}
	t.formats[f.Name] = true
	t.config.LogFormats = append(t.config.LogFormats, f)
}

// accessLogs translates the logs that hold at a scope. Where nothing says a log there is none, though nginx has one then.
func (t *translator) accessLogs(s *scope) []front.Log {
	var logs []front.Log
	for _, d := range s.all("access_log") {
		if d.args[0] == "off" {
			if len(d.args) > 1 {
				t.errorf(d, "has %s: want nothing behind off", shown(d.args[1]))
			}
			return nil
		}
		if log, ok := t.accessLog(d); ok {
			logs = append(logs, log)
		}
	}
	return logs
}

func (t *translator) accessLog(d *directive) (front.Log, bool) {
	log := front.Log{Path: t.path(d.args[0])}
	switch {
	case strings.HasPrefix(d.args[0], "syslog:"):
		t.omit(d, "syslog: is not written to: want a file")
		return log, false
	case hasVariable(d.args[0]):
		t.omit(d, "variables in the path of a log are not done: want one file")
		return log, false
	}
	for i, arg := range d.args[1:] {
		name, value, has := parameter(arg)
		switch {
		case i == 0 && !strings.HasPrefix(arg, "if="):
			if log.Format = arg; t.ok() && !t.formats[arg] {
				t.errorf(d, "there is no format %s: want a log_format with it", shown(arg))
			}
		case name == "if" && has:
			log.If = t.text(d, value)
		case arg == "gzip", name == "gzip":
			t.omit(d, "gzip is not done: compress logs when they are rotated")
		case name == "buffer" && has:
			if n, err := parseSize(value, false); err != nil || n == 0 {
				t.errorf(d, "%s: want a size, such as buffer=32k", shown(arg))
			}
			t.note(d, "buffer: lines are always buffered, in memory that is bounded")
		case name == "flush" && has:
			if _, err := parseTime(value, false); err != nil {
				t.errorf(d, "%s: want a time, such as flush=1s", shown(arg))
			}
			t.note(d, "flush: lines are written as soon as they can be")
		default:
			t.errorf(d, "%s is no parameter of it: want buffer=, flush= or if=", shown(arg))
		}
	}
	if log.Format == "combined" {
		log.Format = ""
	}
	return log, true
}
