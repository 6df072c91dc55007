package exchange

import (
	"context"
	"testing"
	"unsafe"
)

// An exchange exactly fills its size class, except for the eight bytes of the allocator's header.
func TestExchangeFillsItsSizeClass(t *testing.T) {
	const class, header = 704, 8
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	if size := int(unsafe.Sizeof(Exchange{})) + header; size > class || size <= class-int(unsafe.Sizeof("")) {
		t.Errorf("%d bytes, for a class of %d", size, class)
	}
}

// baseLink is a transport that has only a context.
type baseLink struct {
	Transport
	ctx context.Context
}

func (l baseLink) Context() context.Context { return l.ctx }

// BenchmarkContext measures a request's context that is not used, and context.WithCancel.
func BenchmarkContext(b *testing.B) {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("lazy", func(b *testing.B) {
		b.ReportAllocs()
		var x Exchange // which contains the context
		var l Transport = baseLink{ctx: base}
		for b.Loop() {
			x.ctx = requestContext{transport: l, body: &x.Body}
			x.ctx.cancel(context.Canceled)
		}
	})
	b.Run("WithCancel", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithCancel(base)
			cancel()
		}
	})
}
