package http1

// Collector makes of field lines what net/http has as a header: a map from canonical names
// to values.
type Collector struct {
	Fields map[string][]string

	values []string // what the slices of Fields are parts of
	seen   NameSet  // spares most names the question whether the map has them
}

// Collect returns a Collector for n values, most likely. They go where there is room for
// them, if that is enough. fields is an empty map to be filled; nil makes one.
func Collect(fields map[string][]string, n int, room []string) Collector {
	n = max(0, n)
	if n > cap(room) {
		room = make([]string, 0, n)
	}
	if fields == nil {
		fields = make(map[string][]string, n)
	}
	return Collector{Fields: fields, values: room[:0]}
}

// Add adds a line. name is spelled as known is, unless that is NameUnknown.
func (c *Collector) Add(known Name, name, value string) {
	if known == NameUnknown || !c.seen.Add(known) {
		if before, ok := c.Fields[name]; ok {
			c.Fields[name] = append(before, value)
			return
		}
	}
	c.values = append(c.values, value)
	last := len(c.values)
	c.Fields[name] = c.values[last-1 : last : last] // without room: to append to it must not change another
}
