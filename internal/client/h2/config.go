package h2

import (
	"sync"
	"time"

	"github.com/tarehq/tare/internal/poison"
)

// Config holds the settings of connections. It must not be copied, nor changed after its first use.
type Config struct {
	MaxHeadBytes             int   // of a response's field list (RFC 9113, 10.5.1)
	MaxFields                int   // fields of a list
	ConnWindow, StreamWindow int32 // limits of received content that was not read
	MaxFrameSize             uint32
	TableSize                uint32        // of the decoder's dynamic table
	PingAfter                time.Duration // how long nothing arrives before a PING is sent; 0 for no limit
	PingTimeout              time.Duration // how long the response to a PING may take
	WriteTimeout             time.Duration // how long the peer may accept nothing
	CountError               func(string)  // may be nil

	chunks sync.Pool // of *chunk
}

// chunk is a part of a response's body, in a list.
type chunk struct {
	next     *chunk
	from, to int // the bytes that are not read yet
	b        [chunkSize]byte
}

// chunkSize makes a chunk fill a size class.
const chunkSize = 8<<10 - 24

// content is the received part of a body that is not read yet.
type content struct{ first, last *chunk }

// add appends a copy of b.
func (q *content) add(p *Config, b []byte) {
	for len(b) > 0 {
		if q.last == nil || q.last.to == chunkSize {
			k, _ := p.chunks.Get().(*chunk)
			if k == nil {
				k = new(chunk)
			}
			k.next, k.from, k.to = nil, 0, 0
			if q.last == nil {
				q.first = k
			} else {
				q.last.next = k
			}
			q.last = k
		}
		n := copy(q.last.b[q.last.to:], b)
		q.last.to += n
		b = b[n:]
	}
}

// take moves bytes to b.
func (q *content) take(p *Config, b []byte) (n int) {
	for n < len(b) && q.first != nil {
		k := q.first
		m := copy(b[n:], k.b[k.from:k.to])
		n += m
		if k.from += m; k.from == k.to {
			q.drop(p)
		}
	}
	return n
}

// drop removes the first chunk.
func (q *content) drop(p *Config) {
	k := q.first
	if q.first = k.next; q.first == nil {
		q.last = nil
	}
	poison.Fill(k.b[:])
	p.chunks.Put(k)
}

// clear removes everything, and returns the number of bytes.
func (q *content) clear(p *Config) (n int) {
	for q.first != nil {
		n += q.first.to - q.first.from
		q.drop(p)
	}
	return n
}
