package nginxconf

import "slices"

// scope is a block with the settings that it inherits. If a block does not have a directive, the
// nearest outer block's counts; if that has several with the name, all of them do.
//
// This is all of nginx's inheritance, apart from directives that are not inherited (see own) and
// header fields with defaults.
type scope struct {
	outer *scope
	names map[string][]*directive
	list  []*directive
	level string
}

func newScope(outer *scope, level string, block []*directive) *scope {
	s := &scope{outer: outer, names: make(map[string][]*directive), list: block, level: level}
	for _, d := range block {
		s.names[d.name] = append(s.names[d.name], d)
	}
	return s
}

// own returns the block's own directives with a name.
func (s *scope) own(name string) []*directive { return s.names[name] }

// all returns the directives with the names that apply here, in their order. The names count as one
// kind: a block with one of them inherits none. Callers must not change the list.
func (s *scope) all(names ...string) []*directive {
	at := s.holder(names...)
	if at == nil {
		return nil
	}
	if len(names) == 1 {
		return at.names[names[0]]
	}
	var found []*directive
	for _, d := range at.list {
		if slices.Contains(names, d.name) {
			found = append(found, d)
		}
	}
	return found
}

// one returns the directive with the name that applies here, or nil.
func (s *scope) one(name string) *directive {
	for at := s; at != nil; at = at.outer {
		if found := at.names[name]; found != nil {
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
		for _, name := range names {
			if at.names[name] != nil {
				return at
			}
		}
	}
	return nil
}
