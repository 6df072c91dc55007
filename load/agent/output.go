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
	queue  chan *Record // nil ends the goroutine
	done   chan struct{}
	err    error // set before done is closed
	cancel context.CancelCauseFunc
}

// newOutput returns an output that calls cancel if it cannot write.
func newOutput(w io.Writer, cancel context.CancelCauseFunc) *output {
	o := &output{queue: make(chan *Record, maxQueued), done: make(chan struct{}), cancel: cancel}
	go o.write(w)
	return o
}

func (o *output) write(w io.Writer) {
	defer close(o.done)
	e := json.NewEncoder(w)
	for r := <-o.queue; r != nil; r = <-o.queue {
		if err := e.Encode(r); err != nil {
			o.err = fmt.Errorf("agent: %w", err)
			o.cancel(o.err)
			return
		}
	}
}

// send queues a record. It never blocks; if the queue is full, it ends the agent.
func (o *output) send(r Record) {
	select {
	case o.queue <- &r:
	default:
		o.cancel(errUnread)
	}
}

func (o *output) wait(r *Record) {
	select {
	case o.queue <- r:
	case <-o.done:
	}
}

// close writes the queued records and returns the first error. Records that are queued meanwhile
// may be lost.
func (o *output) close() error {
	o.wait(nil)
	<-o.done
	return o.err
}
