package engine

import (
	"context"
	"testing"
)

// baseLink is a link of which only the context is asked.
type baseLink struct {
	transport
	ctx context.Context
}

func (l baseLink) context() context.Context { return l.ctx }

// BenchmarkContext is a request's context that nobody asks, and what context.WithCancel
// takes for one.
func BenchmarkContext(b *testing.B) {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("lazy", func(b *testing.B) {
		b.ReportAllocs()
		var x exchange // in which the context lies
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
