package client

import (
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/wire/http1"
)

var _ connection.LoopDeliverer = (*responseBody)(nil)

// loopDelivery receives a body on an event loop. Meanwhile the exchange has no input buffer, and
// the loop owns what the body's reading guards.
type loopDelivery struct {
	x       *slab
	codec   *http1Codec
	send    func(p []byte) connection.Delivery
	receive func(fd uintptr) // allocated once, not for each event
	memory  []byte           // of the loop, during an event
	goesOn  bool             // results of receive
	hasMore bool
}

// CanDeliverOn implements connection.LoopDeliverer: chunked bodies of HTTP/1, and those that end with
// their connection, on a TCP or unix socket.
func (b *responseBody) CanDeliverOn() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.closed.Load() || b.err != nil {
		return false
	}
	h, isHTTP := b.x.scratch.codec.(*http1Codec)
	return isHTTP && h.mode != http1.ByLength && b.x.conn.raw != nil
}

// DeliverOn implements connection.LoopDeliverer, if CanDeliverOn.
func (b *responseBody) DeliverOn(loop connection.InputLoop, send func(p []byte) connection.Delivery, over func()) bool {
	b.reading.Lock()
	if !b.closed.Load() && b.err == nil && b.x.deliverOn(loop, send, func() {
		b.reading.Unlock()
		over()
	}) {
		return true
	}
	b.reading.Unlock()
	return false
}

func (x *slab) deliverOn(loop connection.InputLoop, send func(p []byte) connection.Delivery, over func()) bool {
	s, h := x.scratch, x.scratch.codec.(*http1Codec)
	if len(s.received()) > 0 || h.hasInput(s) {
		return false
	}
	x.client.releaseInput(s)
	d := &loopDelivery{x: x, codec: h, send: send}
	d.receive = d.receiveFrom
	return x.conn.raw.watch(loop, d.onInput, over, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.ended
	})
}

// onInput receives what has arrived into memory.
func (d *loopDelivery) onInput(memory []byte) (goesOn, hasMore bool) {
	d.memory, d.goesOn, d.hasMore = memory, false, false
	_ = d.x.conn.raw.control(d.receive) // it fails if the connection was closed, as the next Read reports
	d.memory = nil
	poison.Fill(memory)
	return d.goesOn, d.hasMore
}

func (d *loopDelivery) receiveFrom(fd uintptr) {
	x, half := d.x, len(d.memory)/2
	n, err := poll.Recv(int(fd), d.memory[:half])
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // never wrapped
		d.goesOn = true
		return
	case err != nil: // the socket reports it only once
		x.conn.raw.failure = opError(x.conn.raw.conn, "read", err)
		return
	case n == 0:
		return
	}
	x.conn.traffic.received.Add(int64(n))
	in := d.memory[:n]
	d.hasMore = n == half
	used, goesOn := d.deliver(in, d.memory[half:half])
	if d.goesOn = goesOn; used < n {
		x.putBack(in[used:])
	}
}

// deliver sends the data of in. data has room for a copy. It returns how much of in was used:
// nothing if it was refused.
func (d *loopDelivery) deliver(in, data []byte) (used int, goesOn bool) {
	ahead, used := d.codec.chunks, len(in)
	if d.codec.mode != http1.ByChunks {
		data = in
	} else {
		for used = 0; used < len(in) && !ahead.Done(); {
			piece, n, err := ahead.Next(in[used:])
			if err != nil {
				return 0, false // Read returns the data before the error, and the error
			}
			data = append(data, piece...)
			used += n
		}
	}
	how := connection.Delivered
	if len(data) > 0 {
		how = d.send(data)
	}
	if how == connection.Refused {
		return 0, false
	}
	d.codec.chunks = ahead
	return used, how == connection.Delivered && (d.codec.mode != http1.ByChunks || !ahead.Done())
}
