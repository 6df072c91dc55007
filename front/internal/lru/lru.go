// Package lru holds a limited number of values by key, and drops the least recently used one.
package lru

import "container/list"

// Map holds values by key. Its methods must not be called concurrently.
type Map[K comparable, V any] struct {
	most  int
	byKey map[K]*list.Element
	order list.List // of entry[K, V], the last used first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns a Map of at most so many values.
func New[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: most, byKey: make(map[K]*list.Element)}
}

// Get returns the value of a key, which counts as a use.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	e := m.byKey[key]
	if e == nil {
		return value, false
	}
	m.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true //nolint:forcetypeassert // all are
}

// Add adds the value of a key that has none. If there are too many values, it removes the least
// recently used one, and returns it.
func (m *Map[K, V]) Add(key K, value V) (dropped V, ok bool) {
	m.byKey[key] = m.order.PushFront(entry[K, V]{key, value})
	if len(m.byKey) <= m.most {
		return dropped, false
	}
	last := m.order.Remove(m.order.Back()).(entry[K, V]) //nolint:forcetypeassert // all are
	delete(m.byKey, last.key)
	return last.value, true
}

// Clear removes all values, and returns them, the last used first.
func (m *Map[K, V]) Clear() []V {
	all := make([]V, 0, len(m.byKey))
	for e := m.order.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(entry[K, V]).value) //nolint:forcetypeassert // all are
	}
	m.order.Init()
	clear(m.byKey)
	return all
}
