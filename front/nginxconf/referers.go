package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front"
)

// referers translates valid_referers. Who has regular expressions around him inherits them though he has names of his own: nginx's way.
func (t *translator) referers(s *scope) *front.Referers {
	holder := s.holder("valid_referers")
	if holder == nil {
		return nil
	}
	own := holder.own("valid_referers")
	l := referers{seen: make(map[string]bool)}
	for _, d := range own {
		for _, arg := range d.args {
			t.referer(d, holder, &l, arg)
		}
	}
	if (l.None || l.Blocked) && len(l.Names) == 0 {
		t.errorf(own[0], "has none or blocked, and no name: want one, such as server_names, besides")
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

// referers are those of a block.
type referers struct {
	front.Referers
	hosts []string        // regular expressions that are Names
	seen  map[string]bool // names, as they are compared
}

// byKind tells regular expressions from names.
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

// referer reads one argument.
func (t *translator) referer(d *directive, s *scope, l *referers, arg string) {
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
		t.errorf(d, "%s: a regular expression is missing behind it", shown(arg))
	case strings.HasPrefix(arg, "~"):
		l.Patterns = append(l.Patterns, arg[1:])
	case arg == "":
		t.errorf(d, "has an empty name: want none for requests without a Referer")
	default:
		t.refererName(d, l, arg)
	}
}

// refererName adds a name, with a path or without. There may be one of it.
func (t *translator) refererName(d *directive, l *referers, arg string) {
	host, _, _ := strings.Cut(strings.ToLower(arg), "/")
	why := checkName(host)
	if host == "." || host == "*." || strings.Contains(host, "..") {
		why = "a part between dots is missing"
	}
	if why != "" {
		t.errorf(d, "%s: %s", shown(arg), why)
		return
	}
	if strings.ContainsAny(host, ":$?") {
		t.warn(d, "%s: no host is called that: schemes, ports and variables cannot be said here", shown(arg))
	}
	compared := []string{host}
	if strings.HasPrefix(host, ".") {
		compared = []string{host[1:], "*" + host}
	}
	if slices.ContainsFunc(compared, func(name string) bool { return l.seen[name] }) {
		t.errorf(d, "%s: %s is here already", shown(arg), shown(host))
		return
	}
	for _, name := range compared {
		l.seen[name] = true
	}
	l.Names = append(l.Names, arg)
}
