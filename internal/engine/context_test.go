package engine

import (
	"context"
	"testing"
)

// baseLink is a transport that has only a context.
type baseLink struct {
	transport
	ctx context.Context
}

func (l baseLink) context() context.Context { return l.ctx }

// BenchmarkContext measures a request's context that is not used, and context.WithCancel.
func BenchmarkContext(b *testing.B) {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("lazy", func(b *testing.B) {
		b.ReportAllocs()
		var x exchange // which contains the context
		var l transport = baseLink{ctx: base}
		for b.Loop() {
			x.ctx = requestContext{transport: l, body: &x.body}
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
