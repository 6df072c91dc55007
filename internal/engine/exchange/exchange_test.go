package exchange

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
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

func TestDateFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d DateCache
		for range 100 {
			if got, want := d.Text(), time.Now().UTC().Format(http.TimeFormat); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(70 * time.Millisecond)
			synctest.Wait() // for a timer that expires at this instant
		}
	})
}

func BenchmarkDate(b *testing.B) {
	b.Run("cached", func(b *testing.B) {
		var d DateCache
		for b.Loop() {
			_ = d.Text()
		}
	})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
	now := time.Now()
	b.Run("formatted", func(b *testing.B) {
		for b.Loop() {
			_ = now.UTC().Format(http.TimeFormat)
		}
	})
}
