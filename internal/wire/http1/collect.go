package http1

// Collector collects field lines as net/http's Header: a map from canonical names to values.
type Collector struct {
	Fields map[string][]string

	// IsRequest makes AddFields skip Host, which net/http keeps outside of a request's Header.
	IsRequest bool

	values []string // backs the slices of Fields
	seen   NameSet  // saves most names a lookup in the map
}

// Collect returns a Collector for about n values. They are stored in room if that is large enough.
// fields is an empty map to be filled; nil makes one.
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

// Add adds a field line. name is the canonical spelling of known, unless known is NameUnknown.
func (c *Collector) Add(known Name, name, value string) {
	if known == NameUnknown || !c.seen.Add(known) {
		if before, ok := c.Fields[name]; ok {
			c.Fields[name] = append(before, value)
			return
		}
	}
	c.values = append(c.values, value)
	last := len(c.values)
	// capacity 1: an append to it must not change another
	c.Fields[name] = c.values[last-1 : last : last]
}

// AddFields adds field lines, except those of Transfer-Encoding, which net/http keeps outside of
// the Header. text is the Text that they refer to. canonical spells names that Name lacks.
func (c *Collector) AddFields(lines []Field, text *Text, canonical func(string) string) {
	for _, f := range lines {
		name := f.Known.String()
		switch {
		case f.Known == NameUnknown:
			name = canonical(text.Of(f.Name))
		case f.Known == NameTransferEncoding, f.Known == NameHost && c.IsRequest:
			continue
		}
		c.Add(f.Known, name, text.Of(f.Value))
	}
}
