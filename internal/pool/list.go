package pool

// list is a doubly linked list of connections, whose links are in the connections. Removing one
// from the middle takes constant time. The zero value is empty. An idle connection is in two lists.
type list[K comparable, T any] struct {
	head, tail *Conn[K, T]
	n          int
}

type node[K comparable, T any] struct{ prev, next *Conn[K, T] }

// listKind selects which links of a connection a list uses.
type listKind uint8

const (
	hostList listKind = iota // the list of a host
	ageList                  // a list of the Pool, in the order in which connections became idle
)

func (l *list[K, T]) first() *Conn[K, T] { return l.head }

func (l *list[K, T]) last() *Conn[K, T] { return l.tail }

// add appends c.
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

// remove removes c, which is in the list.
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
