// Package connection gives a handler information about the connection of its request, if the server
// supports that.
package connection

import (
	"context"
	"sync/atomic"
	"time"
)

// Info is the information of a server about a client's connection.
type Info interface {
	// Opened returns when the connection was accepted.
	Opened() time.Time
	// CountRequest counts a request, and returns the number of requests so far. Servers do not call
	// it: a handler calls it once for each request.
	CountRequest() int
	// Number returns the connection's number: the next one of a counter at the first call, and the
	// same one later. Any goroutine of a handler may call it.
	Number(counter *atomic.Int64) int64
}

// Number is what a server keeps for Info.Number. The zero value has no number yet.
type Number struct{ n atomic.Int64 }

// Of returns the number. The first call takes the next one of a counter.
func (n *Number) Of(counter *atomic.Int64) int64 {
	if number := n.n.Load(); number != 0 {
		return number
	}
	if next := counter.Add(1); n.n.CompareAndSwap(0, next) {
		return next
	}
	return n.n.Load()
}

type key struct{}

// IsKey reports whether k is the context key of Info. It is for servers whose contexts implement
// Value themselves.
func IsKey(k any) bool { _, ok := k.(key); return ok }

// With returns a context with the Info of a connection.
func With(ctx context.Context, info Info) context.Context {
	return context.WithValue(ctx, key{}, info)
}

// Of returns the Info in a request's context, or nil if there is none.
func Of(ctx context.Context) Info {
	info, _ := ctx.Value(key{}).(Info)
	return info
}
