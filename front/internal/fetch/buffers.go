package fetch

import (
	"sync"

	"github.com/tarehq/tare/internal/poison"
)

// BufferSize is the maximum size of one copy of a response's body.
const BufferSize = 32 << 10

// PieceSize is how much is read at a time of what is neither buffered nor complete, as in nginx.
// Each client that reads slowly holds it: with the 32 KB of a Buffer 10,000 of them took twice the
// memory.
const PieceSize = 8 << 10

// Buffer holds a piece of a response's body.
type Buffer [BufferSize]byte

// Buffers is a free list of buffers. The zero value is ready.
type Buffers struct{ pool sync.Pool }

// Get returns a buffer with any content.
func (l *Buffers) Get() *Buffer {
	if b, ok := l.pool.Get().(*Buffer); ok {
		return b
	}
	return new(Buffer)
}

// Put returns a buffer that nothing refers to any more.
func (l *Buffers) Put(b *Buffer) {
	poison.Fill(b[:])
	l.pool.Put(b)
}
