package hostname

import (
	"fmt"
	"strings"
)

// Map maps names of hosts to values. It finds the exact name, or else the longest "*.x", or else
// the longest "x.*".
type Map[T any] struct {
	exact    map[string]T
	suffixes map[string]T // "*.x", by ".x"
	prefixes map[string]T // "x.*", by "x."
}

// NewMap returns an empty Map.
func NewMap[T any]() *Map[T] {
	return &Map[T]{exact: make(map[string]T), suffixes: make(map[string]T), prefixes: make(map[string]T)}
}

// Add adds a name in lower case. As in nginx the first value of a name is kept.
func (n *Map[T]) Add(name string, value T) error {
	put := func(to map[string]T, name string) {
		if _, ok := to[name]; !ok {
			to[name] = value
		}
	}
	switch rest, star := strings.CutPrefix(name, "*"); {
	case strings.HasPrefix(name, ".") && isLabels(name[1:]):
		put(n.exact, name[1:])
		put(n.suffixes, name)
	case star && strings.HasPrefix(rest, ".") && isLabels(rest[1:]):
		put(n.suffixes, rest)
	case strings.HasSuffix(name, ".*") && isLabels(name[:len(name)-2]):
		put(n.prefixes, name[:len(name)-1])
	case !strings.Contains(name, "*") && !strings.HasPrefix(name, "."):
		put(n.exact, name)
	default:
		return fmt.Errorf("invalid name %q: a star is allowed at one end, next to a dot", name)
	}
	return nil
}

func isLabels(s string) bool { return s != "" && !strings.Contains(s, "*") && s[0] != '.' }

// Len returns the number of names.
func (n *Map[T]) Len() int { return len(n.exact) + len(n.suffixes) + len(n.prefixes) }

// Find returns the value for a name in lower case.
func (n *Map[T]) Find(name string) (value T, ok bool) {
	if value, ok = n.exact[name]; ok || name == "" {
		return value, ok
	}
	if len(n.suffixes) > 0 {
		for i := range len(name) { // the longest suffix comes first
			if name[i] != '.' {
				continue
			}
			if value, ok = n.suffixes[name[i:]]; ok {
				return value, true
			}
		}
	}
	if len(n.prefixes) > 0 {
		for i := len(name) - 2; i > 0; i-- {
			if name[i] != '.' {
				continue
			}
			if value, ok = n.prefixes[name[:i+1]]; ok {
				return value, true
			}
		}
	}
	return value, false
}
