package pool

// A list of connections, linked through their nodes: a connection is taken out of the middle in
// no time. The zero value is empty. Each connection is in two of them while it is idle.
type list[K comparable, T any] struct {
	head, tail *Conn[K, T]
	n          int
}

type node[K comparable, T any] struct{ prev, next *Conn[K, T] }

// which of a connection's nodes a list uses.
type listKind uint8

const (
	hostList listKind = iota // the list of a host's
	ageList                  // one of the pool's
)

func (l *list[K, T]) first() *Conn[K, T] { return l.head }

func (l *list[K, T]) last() *Conn[K, T] { return l.tail }

// add puts c at the end.
func (l *list[K, T]) add(c *Conn[K, T], w listKind) {
	c.nodes[w] = node[K, T]{prev: l.tail}
	if l.tail != nil {
		l.tail.nodes[w].next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.n++
}

// remove takes c out. It is in the list.
func (l *list[K, T]) remove(c *Conn[K, T], w listKind) {
	at := c.nodes[w]
	if at.prev != nil {
		at.prev.nodes[w].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != nil {
		at.next.nodes[w].prev = at.prev
	} else {
		l.tail = at.prev
	}
	c.nodes[w] = node[K, T]{}
	l.n--
}
