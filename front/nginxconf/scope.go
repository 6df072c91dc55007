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
	list   []*syntax.Directive
	byName map[string][]*syntax.Directive // in their order
	level  string
	set    *conf.Settings // once they were translated
	passes *passChain     // once it was needed
}

func newScope(outer *scope, level string, block []*syntax.Directive) *scope {
	s := &scope{outer: outer, list: block, byName: make(map[string][]*syntax.Directive), level: level}
	for i, d := range block {
		if first := s.byName[d.Name]; first == nil {
			s.byName[d.Name] = block[i : i+1 : i+1]
		} else {
			s.byName[d.Name] = append(first, d)
		}
	}
	return s
}

// own returns the block's own directives with a name.
func (s *scope) own(name string) []*syntax.Directive { return s.byName[name] }

// all returns the directives with the names that apply here, in their order. The names count as one
// kind: a block with one of them inherits none. Callers must not change the list.
func (s *scope) all(names ...string) []*syntax.Directive {
	at := s.holder(names...)
	if at == nil {
		return nil
	}
	if len(names) == 1 {
		return at.own(names[0])
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
	for at := s; at != nil; at = at.outer {
		if found := at.own(name); found != nil {
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
		if slices.ContainsFunc(names, func(name string) bool { return at.own(name) != nil }) {
			return at
		}
	}
	return nil
}
