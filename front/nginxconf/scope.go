package nginxconf

import "slices"

// scope is a block, with what it inherits. A directive that a block does not have is that of the nearest block around it that does; where
// there may be several of a name, all of that block's.
//
// That is all there is to inheritance in nginx but for directives that are not inherited (see own), and headers that have defaults.
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

// own are the block's own directives of a name.
func (s *scope) own(name string) []*directive { return s.names[name] }

// all are the directives of the names that hold here, in their order. Several names are one kind: who has one of them inherits none.
// The list is the scope's, and is only read.
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

// one is the directive of the name that holds here, or nil.
func (s *scope) one(name string) *directive {
	for at := s; at != nil; at = at.outer {
		if found := at.names[name]; found != nil {
			return found[len(found)-1]
		}
	}
	return nil
}

// at is the nearest block of a level, this one or one around it, or nil.
func (s *scope) at(level string) *scope {
	for s != nil && s.level != level {
		s = s.outer
	}
	return s
}

// holder is the nearest block that has a directive of one of the names.
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
