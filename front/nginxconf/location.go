package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) locations(s *scope) []conf.Location {
	own := s.own("location")
	if own == nil {
		return nil
	}
	all := make([]conf.Location, 0, len(own))
	for _, d := range own {
		match, path, ok := t.locationPath(d)
		if !ok {
			continue
		}
		all = append(all, conf.Location{Match: match, Path: path, Pos: d.Place()})
		t.location(newScope(s, levelLocation, d.Block), &all[len(all)-1])
	}
	return all
}

// locationPath parses a location's arguments. Its modifier may be part of the path's word.
func (t *translator) locationPath(d *syntax.Directive) (match, path string, ok bool) {
	modifiers := []string{"^~", "~*", "=", "~"}
	if len(d.Args) == 2 {
		if slices.Contains(modifiers, d.Args[0]) {
			return d.Args[0], d.Args[1], true
		}
		t.errorf(d, "invalid location modifier %s (must be =, ^~, ~ or ~*)", grammar.Quote(d.Args[0]))
		return "", "", false
	}
	path = d.Args[0]
	for _, m := range modifiers {
		if rest, ok := strings.CutPrefix(path, m); ok {
			return m, rest, true
		}
	}
	if strings.HasPrefix(path, "@") {
		return "@", path, true
	}
	return "", path, true
}

func (t *translator) location(s *scope, l *conf.Location) {
	s.location = l
	l.Internal = s.holder("internal") != nil // as in nginx, internal of an outer location counts, too
	l.Steps = append(t.limitExcept(s), t.steps(s)...)
	l.TryFiles = t.tryFiles(s)
	t.status(s, l)
	l.Empty = s.own("empty_gif") != nil
	l.Settings = t.settings(s)
	t.passesOf(s, s, l)
	t.checkUnused(s)
	t.oneContent(s)
	for _, d := range s.own("keepalive_timeout") { // it applies before a location is known
		t.omit(d, "not supported in a location (move it to server or http)")
	}
	t.checkPassword(s)
	l.Locations = t.locations(s)
}

// status translates stub_status. nginx accepts and ignores any argument; "prometheus" is an
// extension.
func (t *translator) status(s *scope, l *conf.Location) {
	for _, d := range s.own("stub_status") {
		l.Metrics = len(d.Args) == 1 && d.Args[0] == "prometheus"
		l.Status = !l.Metrics
	}
}

// checkUnused reports errors in a location's own directives for upstreams that it does not pass
// requests to, as nginx does. A lenient parser need not close such a location.
func (t *translator) checkUnused(s *scope) {
	if t.lenient {
		return
	}
	for _, kind := range []string{"proxy", "fastcgi", "grpc"} {
		if s.own(kind+"_pass") == nil &&
			slices.ContainsFunc(s.groups, func(g group) bool { return strings.HasPrefix(g.name, kind+"_") }) {
			_ = t.pass(s, kind)
		}
	}
}

// oneContent checks that a location has only one content handler.
func (t *translator) oneContent(s *scope) {
	var first string
	for _, name := range []string{"proxy_pass", "fastcgi_pass", "grpc_pass", "stub_status", "empty_gif"} {
		if own := s.own(name); own == nil {
			continue
		} else if first != "" {
			t.errorf(own[0], "conflicts with %s in the same location", first)
		}
		first = name
	}
}

// tryFiles translates a block's own try_files.
func (t *translator) tryFiles(s *scope) []conf.Text {
	var tries []conf.Text
	for _, d := range s.own("try_files") {
		for _, arg := range d.Args {
			tries = append(tries, t.text(d, arg))
		}
		if code, ok := strings.CutPrefix(d.Args[len(d.Args)-1], "="); ok {
			if n, err := grammar.ParseNumber(code); err != nil || n > 999 {
				t.errorf(d, "invalid status %s (example: =404)", grammar.Quote(d.Args[len(d.Args)-1]))
			}
		}
	}
	return tries
}

// checkNamed warns of named locations that directives need and the server does not have: as in nginx
// that is no error. Settings do not tell it, because other servers may have the same.
func (t *translator) checkNamed(server *scope, list []*syntax.Directive) {
	for _, d := range list {
		t.checkNamed(server, d.Block)
		if d.Name != "error_page" && d.Name != "try_files" || len(d.Args) == 0 {
			continue
		}
		to := d.Args[len(d.Args)-1]
		isTarget := func(l *syntax.Directive) bool { return l.Args[0] == to }
		if strings.HasPrefix(to, "@") && !strings.Contains(to, "$") &&
			!slices.ContainsFunc(server.own("location"), isTarget) {
			t.warn(d, "unknown named location %s: requests that need it get 500", grammar.Quote(to))
		}
	}
}

// limitExcept translates limit_except. Requests with other methods continue in a location of their
// own, which has the block's settings, and inherits the location's without rewriting.
func (t *translator) limitExcept(s *scope) []conf.Step {
	var steps []conf.Step
	for _, d := range s.own("limit_except") {
		methods := strings.ToUpper(strings.Join(d.Args, " "))
		if slices.Contains(strings.Fields(methods), "GET") {
			methods += " HEAD"
		}
		steps = append(steps, conf.If{
			Op: "!method", Right: conf.Text(methods), Then: []conf.Step{conf.Break{}},
			Location: t.locationOfIf(d, newScope(s, levelLimitExcept, d.Block)),
		})
	}
	return steps
}
