package cache

// list holds entries in the order of their last use. An entry is in at most one list of memory and
// one of files.
type list struct {
	root  links
	bytes int64
	of    func(*entry) *links
}

type links struct {
	next, prev *links
	entry      *entry
	list       *list
	bytes      int64
}

func (l *list) init(of func(*entry) *links) {
	l.root.next, l.root.prev = &l.root, &l.root
	l.of = of
}

// push moves an entry to the front, from any list of the same kind.
func (l *list) push(e *entry, bytes int64) {
	k := l.of(e)
	k.remove()
	k.entry, k.list, k.bytes = e, l, bytes
	k.prev, k.next = &l.root, l.root.next
	k.next.prev, k.prev.next = k, k
	l.bytes += bytes
}

// last returns the least recently used entry, or nil.
func (l *list) last() *entry { return l.root.prev.entry }

// remove removes an entry from its list, if it is in one, and returns its bytes.
func (k *links) remove() int64 {
	if k.list == nil {
		return 0
	}
	k.prev.next, k.next.prev = k.next, k.prev
	k.list.bytes -= k.bytes
	k.list, k.next, k.prev = nil, nil, nil
	return k.bytes
}
