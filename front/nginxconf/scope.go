package nginxconf

import (
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// Levels are the places of directives, in the words of directives.txt.
const (
	levelMain        = "main"
	levelHTTP        = "http"
	levelServer      = "server"
	levelLocation    = "location"
	levelLimitExcept = "limit_except"
	levelUpstream    = "upstream"
	levelMatch       = "match"
)

// scope is a block with the settings that it inherits. If a block does not have a directive, the
// nearest outer block's counts; if that has several with the name, all of them do.
//
// This is all of nginx's inheritance, apart from directives that are not inherited (see own) and
// header fields with defaults.
type scope struct {
	outer    *scope
	groups   []group
	list     []*syntax.Directive
	level    string
	location *conf.Location   // whose block it is; nil for others, also for an if
	chains   [numKinds]*chain // once they were needed
	marks    uint64           // of the names here: see mark
}

// group holds the directives of a block that have the same name, in their order.
type group struct {
	name string
	list []*syntax.Directive
}

func newScope(outer *scope, level string, block []*syntax.Directive) *scope {
	s := &scope{outer: outer, groups: make([]group, 0, min(len(block), 8)), list: block, level: level}
	last := 0 // the group of the directive before
	for i, d := range block {
		if last == len(s.groups) || s.groups[last].name != d.Name {
			last = slices.IndexFunc(s.groups, func(g group) bool { return g.name == d.Name })
		}
		if last >= 0 {
			s.groups[last].list = append(s.groups[last].list, d)
			continue
		}
		last = len(s.groups)
		s.groups = append(s.groups, group{d.Name, block[i : i+1 : i+1]})
		s.marks |= mark(d.Name)
	}
	return s
}

// mark returns a bit for a name. A location looks for hundreds of names that no block around it
// has. A mark that is missing saves the search. No name is empty.
func mark(name string) uint64 {
	n := len(name)
	return 1 << ((n*29 + int(name[n-1])*7 + int(name[n/2])*13 + int(name[0])) % 64)
}

// own returns the block's own directives with a name.
func (s *scope) own(name string) []*syntax.Directive {
	if s.marks&mark(name) == 0 {
		return nil
	}
	for i := range s.groups {
		if g := &s.groups[i]; g.name == name {
			return g.list
		}
	}
	return nil
}

// all returns the directives with the name that apply here, in their order. Callers must not change
// the list.
func (s *scope) all(name string) []*syntax.Directive {
	for at := s; at != nil; at = at.outer {
		if own := at.own(name); own != nil {
			return own
		}
	}
	return nil
}

// one returns the directive with the name that applies here, or nil.
func (s *scope) one(name string) *syntax.Directive {
	if all := s.all(name); all != nil {
		return all[len(all)-1]
	}
	return nil
}

// at returns the nearest block of a level, including this one, or nil.
func (s *scope) at(level string) *scope {
	for s != nil && s.level != level {
		s = s.outer
	}
	return s
}

// holder returns the nearest block that has a directive with one of the names.
func (s *scope) holder(names ...string) *scope {
	at := s
	for at != nil && !slices.ContainsFunc(names, func(name string) bool { return at.own(name) != nil }) {
		at = at.outer
	}
	return at
}
