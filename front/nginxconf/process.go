package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/syslog"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) processOf(s *scope) {
	p := &t.process
	for _, d := range s.own("user") {
		p.User = d.Args[0]
		if len(d.Args) == 2 {
			p.Group = d.Args[1]
		}
	}
	for _, d := range s.own("pid") {
		p.PID = t.path(d, d.Args[0])
	}
	if d := s.one("worker_processes"); d != nil && d.Args[0] != "auto" {
		n, err := grammar.ParseNumber(d.Args[0])
		if p.Workers = int(n); err != nil || n == 0 {
			t.errorf(d, "invalid number %s (must be greater than 0, or auto)", grammar.Quote(d.Args[0]))
		}
	}
	p.Files = uint64(s.number("worker_rlimit_nofile", 0))
	if d := s.one("worker_shutdown_timeout"); d != nil {
		t.config.ShutdownTimeout, _ = grammar.ParseTime(d.Args[0]) // in both, 0 means no limit
	}
	t.config.ErrorLog = t.errorLog(s)
}

// errorLog translates the error logs of a scope; nil is the default.
func (t *translator) errorLog(s *scope) *conf.ErrorLog {
	var first *conf.ErrorLog
	last := &first
	for _, d := range s.all("error_log") {
		if log := t.oneErrorLog(d); log != nil {
			*last, last = log, &log.Next
		}
	}
	return first
}

func (t *translator) oneErrorLog(d *syntax.Directive) *conf.ErrorLog {
	log := &conf.ErrorLog{Path: d.Args[0], Level: "error"}
	if len(d.Args) > 1 {
		log.Level = d.Args[1]
	}
	if levels := syslog.Severities(); !slices.Contains(levels[:], log.Level) {
		t.errorf(d, "invalid level %s (must be one of %s)", grammar.Quote(log.Level), strings.Join(levels[:], ", "))
	}
	switch {
	case strings.HasPrefix(log.Path, "memory:"):
		t.omit(d, "%s is not supported (use a file, stderr or syslog:)", grammar.Quote(log.Path))
		return nil
	case strings.HasPrefix(log.Path, syslog.Prefix):
		_, err := syslog.Parse(log.Path)
		t.check(d, err)
	case log.Path != "stderr":
		log.Path = t.path(d, log.Path)
	}
	return log
}
