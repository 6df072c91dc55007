package fcgi

import (
	"context"
	"errors"
	"net"
	"testing"
)

// A turn that comes to a request which has just given up goes to the next.
func TestTurnThatNobodyWants(t *testing.T) {
	tr, at := &Transport{MaxConns: 1, MaxIdleConns: 1}, address{"tcp", "x:1"}
	first, queue := tr.enqueue(at)
	if queue != nil || first.nc != nil {
		t.Fatal("the first request waits")
	}
	late, lateQueue := tr.enqueue(at)
	_, next := tr.enqueue(at)
	nc, other := net.Pipe()
	defer other.Close()
	tr.giveBack(first.p, nc) // to the second, which does not look
	if tr.leave(late.p, lateQueue); len(next) != 1 {
		t.Fatal("the third request has no turn")
	}
	if now := <-next; now.nc != nc {
		t.Errorf("it has another connection, %v", now.nc)
	}
	tr.giveBack(first.p, nil)
	if tr.Pools() != 0 {
		t.Error("the pool is not forgotten")
	}
}

// A request that gives up while it waits is not waited for.
func TestLeaving(t *testing.T) {
	tr, at := &Transport{MaxConns: 1}, address{"tcp", "x:1"}
	first, _ := tr.enqueue(at)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(net.ErrClosed)
	if _, err := tr.await(ctx, at); !errors.Is(err, net.ErrClosed) || tr.Waiting() != 0 {
		t.Errorf("%v, %d wait", err, tr.Waiting())
	}
	tr.giveBack(first.p, nil)
	if tr.Pools() != 0 {
		t.Error("the pool is not forgotten")
	}
}
