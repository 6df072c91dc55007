// Package connection lets a handler learn about the connection that its request came by, if the server provides that.
package connection

import (
	"context"
	"time"
)

// Info is what a server knows about a client's connection.
type Info interface {
	// Opened returns when the connection was accepted.
	Opened() time.Time
	// CountRequest counts another request, and returns how many there are. Servers do not count: the handler calls it once for each
	// request that it serves.
	CountRequest() int
}

type key struct{}

// IsKey reports whether a context is asked for its Info. It is for servers whose contexts implement Value themselves.
func IsKey(k any) bool { _, ok := k.(key); return ok }

// With returns a context for the requests of a connection.
func With(ctx context.Context, info Info) context.Context {
	return context.WithValue(ctx, key{}, info)
}

// Of returns the Info of a request's context, nil if its server provides none.
func Of(ctx context.Context) Info {
	info, _ := ctx.Value(key{}).(Info)
	return info
}
