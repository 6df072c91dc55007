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
	outer  *scope
	groups []group
	list   []*syntax.Directive
	level  string
	set    *conf.Settings   // once they were translated
	chains [numKinds]*chain // once they were needed
	marks  nameMarks        // of the names here and in the outer blocks
}

// group holds the directives of a block that have the same name, in their order.
type group struct {
	name string
	list []*syntax.Directive
}

func newScope(outer *scope, level string, block []*syntax.Directive) *scope {
	s := &scope{outer: outer, groups: make([]group, 0, min(len(block), 8)), list: block, level: level}
	if outer != nil {
		s.marks = outer.marks
	}
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
		s.marks.add(d.Name)
	}
	return s
}

// nameMarks is a superset of a set of names. A location looks for hundreds of names that no block
// around it has; a mark that is missing saves the search. With a map in each scope, lookups were a
// fifth of a check's CPU time in a profile.
type nameMarks [4]uint64

func (m *nameMarks) add(name string) {
	i := nameMark(name)
	m[i/64] |= 1 << (i % 64)
}

func (m *nameMarks) has(name string) bool {
	i := nameMark(name)
	return m[i/64]>>(i%64)&1 != 0
}

// nameMark is the index of a name.
func nameMark(name string) byte {
	n := len(name)
	if n == 0 {
		return 0
	}
	return byte(n)*29 + name[n-1]*7 + name[n/2]*13 + name[0]
}

// own returns the block's own directives with a name.
func (s *scope) own(name string) []*syntax.Directive {
	if !s.marks.has(name) {
		return nil
	}
	return s.find(name)
}

// find is own for a name that is marked.
func (s *scope) find(name string) []*syntax.Directive {
	for i := range s.groups {
		if g := &s.groups[i]; g.name == name {
			return g.list
		}
	}
	return nil
}

// all returns the directives with the names that apply here, in their order. The names count as one
// kind: a block with one of them inherits none. Callers must not change the list.
func (s *scope) all(names ...string) []*syntax.Directive {
	at := s.holder(names...)
	if at == nil {
		return nil
	}
	if len(names) == 1 {
		return at.find(names[0])
	}
	var found []*syntax.Directive
	for _, d := range at.list {
		if slices.Contains(names, d.Name) {
			found = append(found, d)
		}
	}
	return found
}

// one returns the directive with the name that applies here, or nil.
func (s *scope) one(name string) *syntax.Directive {
	for at := s; at != nil && at.marks.has(name); at = at.outer {
		if found := at.find(name); found != nil {
			return found[len(found)-1]
		}
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
	for at := s; at != nil; at = at.outer {
		marked := false
		for _, name := range names {
			if at.marks.has(name) {
				if marked = true; at.find(name) != nil {
					return at
				}
			}
		}
		if !marked { // nor in the outer blocks
			return nil
		}
	}
	return nil
}
