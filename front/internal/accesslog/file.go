package accesslog

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// flushInterval is the time between two writes of a File. The lines of an interval are written
	// together: writing each by itself would add a tenth to a request's cost.
	flushInterval = 100 * time.Millisecond
	// writeTimeout is how long a request waits for a file that is too slow. After that the line is
	// lost and counted.
	writeTimeout = time.Second
	// keptLine is the maximum capacity of a buffer that is reused.
	keptLine = 4 << 10
)

// Buffers holds reusable buffers for lines, and the current second as text: formatting it for each
// line would be a third of the line's cost. The zero value is ready to use.
type Buffers struct {
	buffers sync.Pool // of *[]byte
	second  atomic.Pointer[second]
}

type second struct {
	unix int64
	text string
}

// Local returns a time in the Common Log Format.
func (b *Buffers) Local(at time.Time) string {
	s := b.second.Load()
	if s == nil || s.unix != at.Unix() {
		s = &second{at.Unix(), at.Format(clfTime)}
		b.second.Store(s)
	}
	return s.text
}

// Get returns a buffer, which may have content.
func (b *Buffers) Get() *[]byte {
	if buffer, ok := b.buffers.Get().(*[]byte); ok {
		return buffer
	}
	return new([]byte)
}

// Put makes a buffer of Get available again, with the memory of line.
func (b *Buffers) Put(buffer *[]byte, line []byte) {
	if cap(line) <= keptLine {
		*buffer = line
		b.buffers.Put(buffer)
	}
}
