package front

import (
	"fmt"
	"strings"
)

// names find what belongs to a host's name: that of the name itself, or else of the longest "*.x", or else of the longest "x.*".
type names[T any] struct {
	exact  map[string]T
	before map[string]T // "*.x", by ".x"
	after  map[string]T // "x.*", by "x."
}

func newNames[T any]() *names[T] {
	return &names[T]{exact: make(map[string]T), before: make(map[string]T), after: make(map[string]T)}
}

// add makes a name known, in lower case. The first thing of a name keeps it, as in nginx.
func (n *names[T]) add(name string, thing T) error {
	put := func(to map[string]T, name string) {
		if _, ok := to[name]; !ok {
			to[name] = thing
		}
	}
	switch rest, star := strings.CutPrefix(name, "*"); {
	case strings.HasPrefix(name, ".") && isLabels(name[1:]):
		put(n.exact, name[1:])
		put(n.before, name)
	case star && strings.HasPrefix(rest, ".") && isLabels(rest[1:]):
		put(n.before, rest)
	case strings.HasSuffix(name, ".*") && isLabels(name[:len(name)-2]):
		put(n.after, name[:len(name)-1])
	case !strings.Contains(name, "*") && !strings.HasPrefix(name, "."):
		put(n.exact, name)
	default:
		return fmt.Errorf("%q is no name: a star stands at one end, with a dot beside it", name)
	}
	return nil
}

func isLabels(s string) bool { return s != "" && !strings.Contains(s, "*") && s[0] != '.' }

// size is how many names there are.
func (n *names[T]) size() int { return len(n.exact) + len(n.before) + len(n.after) }

// find finds what belongs to a name in lower case.
func (n *names[T]) find(name string) (thing T, ok bool) {
	if thing, ok = n.exact[name]; ok || name == "" {
		return thing, ok
	}
	if len(n.before) > 0 {
		for i := range len(name) { // the longest comes first
			if name[i] != '.' {
				continue
			}
			if thing, ok = n.before[name[i:]]; ok {
				return thing, true
			}
		}
	}
	if len(n.after) > 0 {
		for i := len(name) - 2; i > 0; i-- {
			if name[i] != '.' {
				continue
			}
			if thing, ok = n.after[name[:i+1]]; ok {
				return thing, true
			}
		}
	}
	return thing, false
}
