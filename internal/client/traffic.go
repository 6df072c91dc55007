package client

import "sync/atomic"

// traffic counts the bytes of one use of a connection. It lies in the connection, because it does
// not fit into the slab. Its fields are atomic: an exchange may end while its goroutines still send
// or receive. Each changes once for a system call.
type traffic struct {
	sent, received atomic.Int64
	hooks          Hooks // of the current use; nil without any
}

// reset begins another use.
func (t *traffic) reset(h Hooks) {
	t.hooks = h
	t.sent.Store(0)
	t.received.Store(0)
}

// write writes to the connection. It counts the bytes before it sends them: the server may respond,
// and so the exchange may end, before Write returns.
func (x *exchange) write(p []byte) (int, error) {
	sent := &x.conn.traffic.sent
	sent.Add(int64(len(p)))
	n, err := x.conn.Write(p)
	if n < len(p) {
		sent.Add(int64(n - len(p)))
	}
	return n, err
}

// reportEnd calls Hooks.Ended. unread is the number of received bytes that follow the response. The
// caller holds mu, so that Ended has returned when others find the exchange ended.
func (x *exchange) reportEnd(unread int) {
	t := &x.conn.traffic
	if h := t.hooks; h != nil {
		t.hooks = nil
		h.Ended(t.sent.Load(), t.received.Load()-int64(unread))
	}
}
