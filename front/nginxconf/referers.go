package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// referers translates valid_referers. As in nginx, a block with its own names still inherits
// regular expressions from outer blocks.
func (t *translator) referers(s *scope) *conf.Referers {
	holder := s.holder("valid_referers")
	if holder == nil {
		return nil
	}
	own := holder.own("valid_referers")
	l := referers{seen: make(map[string]bool)}
	for _, d := range own {
		for _, arg := range d.Args {
			t.referer(d, holder, &l, arg)
		}
	}
	if (l.None || l.Blocked) && len(l.Names) == 0 {
		t.errorf(own[0], "none and blocked require a name, such as server_names")
	}
	if outer := t.referers(holder.outer); outer != nil {
		hosts, _ := byKind(outer.Names)
		if l.hosts == nil {
			l.hosts = hosts
		}
		if l.Patterns == nil {
			l.Patterns = outer.Patterns
		}
	}
	l.Names = append(l.Names, l.hosts...)
	return &l.Referers
}

// referers collects the names of a block.
type referers struct {
	conf.Referers
	hosts []string        // regular expressions among Names
	seen  map[string]bool // normalized names
}

// byKind separates regular expressions from names.
func byKind(names []string) (patterns, rest []string) {
	for _, name := range names {
		if strings.HasPrefix(name, "~") {
			patterns = append(patterns, name)
		} else {
			rest = append(rest, name)
		}
	}
	return patterns, rest
}

func (t *translator) referer(d *syntax.Directive, s *scope, l *referers, arg string) {
	switch {
	case arg == "none":
		l.None = true
	case arg == "blocked":
		l.Blocked = true
	case arg == "server_names":
		hosts, names := byKind(t.names(s.at(levelServer)))
		l.hosts = hosts
		for _, name := range names {
			t.refererName(d, l, name)
		}
	case arg == "~":
		t.errorf(d, "missing regular expression after %s", grammar.Quote(arg))
	case strings.HasPrefix(arg, "~"):
		l.Patterns = append(l.Patterns, arg[1:])
	case arg == "":
		t.errorf(d, "empty name (use none for requests without a Referer)")
	default:
		t.refererName(d, l, arg)
	}
}

// refererName adds a name, with or without a path. Duplicates are errors.
func (t *translator) refererName(d *syntax.Directive, l *referers, arg string) {
	host, _, _ := strings.Cut(strings.ToLower(arg), "/")
	why := checkName(host)
	if host == "." || host == "*." || strings.Contains(host, "..") {
		why = "empty part between dots"
	}
	if why != "" {
		t.errorf(d, "%s: %s", grammar.Quote(arg), why)
		return
	}
	if strings.ContainsAny(host, ":$?") {
		t.warn(d, "%s matches no host: schemes, ports and variables are not supported here", grammar.Quote(arg))
	}
	compared := []string{host}
	if strings.HasPrefix(host, ".") {
		compared = []string{host[1:], "*" + host}
	}
	if slices.ContainsFunc(compared, func(name string) bool { return l.seen[name] }) {
		t.errorf(d, "%s: duplicate name %s", grammar.Quote(arg), grammar.Quote(host))
		return
	}
	for _, name := range compared {
		l.seen[name] = true
	}
	l.Names = append(l.Names, arg)
}
