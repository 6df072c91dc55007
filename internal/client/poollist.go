package client

// list is a doubly linked list of connections, whose links are in the connections. Removing one
// from the middle takes constant time. The zero value is empty. An idle connection is in two lists.
type list struct {
	head, tail *conn
	n          int
}

type node struct{ prev, next *conn }

// listKind selects which links of a connection a list uses.
type listKind uint8

const (
	hostList listKind = iota // the list of a host
	ageList                  // a list of the pool, in the order in which connections became idle
)

func (l *list) first() *conn { return l.head }

func (l *list) last() *conn { return l.tail }

func (l *list) add(c *conn, w listKind) {
	c.nodes[w] = node{prev: l.tail}
	if l.tail != nil {
		l.tail.nodes[w].next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.n++
}

// remove removes c, which is in the list.
func (l *list) remove(c *conn, w listKind) {
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
	c.nodes[w] = node{}
	l.n--
}
