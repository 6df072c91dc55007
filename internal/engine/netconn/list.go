package netconn

// List is an intrusive list of connections. A map would cost each connection two hash
// operations and a share of its growth.
type List struct {
	First *Conn
	N     int
}

// Add adds c, which is in no list.
func (l *List) Add(c *Conn) {
	if c.NextConn = l.First; c.NextConn != nil {
		c.NextConn.prevConn = c
	}
	l.First = c
	l.N++
}

// Remove removes c, which is in the list.
func (l *List) Remove(c *Conn) {
	if c.prevConn != nil {
		c.prevConn.NextConn = c.NextConn
	} else {
		l.First = c.NextConn
	}
	if c.NextConn != nil {
		c.NextConn.prevConn = c.prevConn
	}
	c.prevConn, c.NextConn = nil, nil
	l.N--
}
