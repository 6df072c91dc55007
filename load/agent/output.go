package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxQueued limits the records that wait to be written. It is enough for an hour: a slow reader
// must not hold up a run.
const maxQueued = 4096

var errUnread = errors.New("agent: the queue of records is full: nothing reads the output")

// output writes records in a goroutine of its own. Any goroutine may call its methods, except
// close, which only one calls.
type output struct {
	queue   chan Record
	closing chan struct{}
	done    chan struct{}
	err     error // set before done is closed
	cancel  context.CancelCauseFunc
}

// newOutput returns an output that calls cancel if it cannot write.
func newOutput(w io.Writer, cancel context.CancelCauseFunc) *output {
	o := &output{queue: make(chan Record, maxQueued), closing: make(chan struct{}), done: make(chan struct{}),
		cancel: cancel}
	go o.write(w)
	return o
}

func (o *output) write(w io.Writer) {
	defer close(o.done)
	e := json.NewEncoder(w)
	write := func(r Record) (ok bool) {
		if err := e.Encode(r); err != nil {
			o.err = fmt.Errorf("agent: %w", err)
			o.cancel(o.err)
			return false
		}
		return true
	}
	for {
		select {
		case r := <-o.queue:
			if !write(r) {
				return
			}
		case <-o.closing:
			for len(o.queue) > 0 {
				if !write(<-o.queue) {
					return
				}
			}
			return
		}
	}
}

// send queues a record. It never blocks; if the queue is full, it ends the agent.
func (o *output) send(r Record) {
	select {
	case o.queue <- r:
	default:
		o.cancel(errUnread)
	}
}

func (o *output) wait(r Record) {
	select {
	case o.queue <- r:
	case <-o.done:
	}
}

// close writes the queued records and returns the first error. Records that are queued meanwhile
// may be lost.
func (o *output) close() error {
	close(o.closing)
	<-o.done
	return o.err
}
