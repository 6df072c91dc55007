package connection

import (
	"sync"
	"unsafe"

	"github.com/tarehq/tare/internal/poison"
)

// Buffers is a free list of buffers, all of the same size. The zero value is ready.
type Buffers struct{ first sync.Pool } // of *byte: storing the slice would allocate

// Get returns a buffer with any content.
func (l *Buffers) Get(size int) []byte {
	if first, ok := l.first.Get().(*byte); ok {
		return unsafe.Slice(first, size)
	}
	return make([]byte, size)
}

// Put returns a buffer that nothing refers to any more.
func (l *Buffers) Put(b []byte) {
	poison.Fill(b)
	l.first.Put(unsafe.SliceData(b))
}
