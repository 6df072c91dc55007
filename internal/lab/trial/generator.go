package trial

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// Generator produces the load of trials on another machine.
type Generator interface {
	// Open is like load.Open.
	Open(ctx context.Context, p load.Plan) (Session, error)
}

// Session has methods of load.Session.
type Session interface {
	Slice(ctx context.Context, d time.Duration, counts bool) (load.Slice, error)
	Close() *load.Result
}

type ownProcess struct{}

func (ownProcess) Open(ctx context.Context, p load.Plan) (Session, error) {
	s, err := load.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b *Bench) generator() Generator {
	if b.Generator == nil {
		return ownProcess{}
	}
	return b.Generator
}

func remoteCost(r *load.Result) *proc.Cost {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return &proc.Cost{Name: sample.RoleGenerator, User: seconds(r.Generator.UserSeconds),
		Sys: seconds(r.Generator.SysSeconds)}
}
