package client

// list is a doubly linked list of connections, whose links are in the connections. Removing one
// from the middle takes constant time. The zero value is empty. An idle connection is in two lists.
type list struct {
	first, last *conn
	n           int
}

type node struct{ prev, next *conn }

// listKind selects which links of a connection a list uses.
type listKind uint8

const (
	hostList listKind = iota // the list of a host
	ageList                  // a list of the pool, in the order in which connections became idle
)

func (l *list) add(c *conn, w listKind) {
	c.nodes[w] = node{prev: l.last}
	if l.last != nil {
		l.last.nodes[w].next = c
	} else {
		l.first = c
	}
	l.last = c
	l.n++
}

// remove removes c, which is in the list.
func (l *list) remove(c *conn, w listKind) {
	at := c.nodes[w]
	if at.prev != nil {
		at.prev.nodes[w].next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.nodes[w].prev = at.prev
	} else {
		l.last = at.prev
	}
	c.nodes[w] = node{}
	l.n--
}
