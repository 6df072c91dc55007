package fetch

import (
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/connection"
)

// responseBody is the body of a response. Its end is the end of the attempt.
type responseBody struct {
	io.ReadCloser
	attempt *attempt
	pace    *Pace // nil if reading is not limited
	read    int64 // bytes, if it is
}

// Read waits for the server no longer than ReadTimeout.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.pace != nil {
		most, err := b.waitForRate()
		if err != nil {
			return 0, err
		}
		p = p[:min(len(p), most)]
	}
	b.attempt.startWait()
	n, err := b.ReadCloser.Read(p)
	b.attempt.endWait(n)
	if b.read += int64(n); err != nil {
		b.attempt.end(false)
		if err != io.EOF && errors.Is(b.attempt.Err(), errTimeout) {
			err = errTimeout
		}
	}
	return n, err
}

// waitForRate waits until the body may be read further, and returns how much. It ends with the
// attempt.
func (b *responseBody) waitForRate() (int, error) {
	for {
		allowed, rest := b.pace.Allowed()
		if most := allowed - b.read; most > 0 {
			return int(min(most, math.MaxInt32)), nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-b.attempt.Done():
			timer.Stop()
			return 0, b.attempt.Err()
		}
	}
}

var _, _ connection.InputReporter = (*responseBody)(nil), (*upstreamBody)(nil)

// HasInput implements connection.InputReporter. It returns false if reading is limited.
func (b *responseBody) HasInput() bool {
	body, ok := b.ReadCloser.(connection.InputReporter)
	return ok && b.pace == nil && body.HasInput()
}

// AwaitInput implements connection.InputAwaiter. It does not wait if reading is limited.
func (b *responseBody) AwaitInput() {
	if body, ok := b.ReadCloser.(connection.InputAwaiter); ok && b.pace == nil {
		b.attempt.startWait() // which a Read continues
		body.AwaitInput()
	}
}

// Deliver implements connection.Deliverer.
func (b *responseBody) Deliver(send func(p []byte) connection.Delivery) {
	body, ok := b.ReadCloser.(connection.Deliverer)
	if !ok || b.pace != nil || send == nil {
		b.AwaitInput()
		return
	}
	body.Deliver(b.timed(send))
}

// timed begins to wait for the server. It returns send, which does so again.
func (b *responseBody) timed(send func(p []byte) connection.Delivery) func(p []byte) connection.Delivery {
	a := b.attempt
	a.startWait()
	return func(p []byte) connection.Delivery {
		how := send(p)
		if how != connection.Refused {
			a.endWait(len(p))
		}
		if how == connection.Delivered {
			a.startWait() // again
		}
		return how
	}
}

// CanDeliverOn implements connection.LoopDeliverer.
func (b *responseBody) CanDeliverOn() bool {
	body, ok := b.ReadCloser.(connection.LoopDeliverer)
	return ok && b.pace == nil && body.CanDeliverOn()
}

// DeliverOn implements connection.LoopDeliverer.
func (b *responseBody) DeliverOn(loop connection.InputLoop, send func(p []byte) connection.Delivery, over func()) bool {
	return b.ReadCloser.(connection.LoopDeliverer).DeliverOn(loop, b.timed(send), over)
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.attempt.end(false)
	return err
}

// maxCompleteBody is the length up to which a body that has arrived is written in one call.
const maxCompleteBody = 16 << 10

// CompleteBody returns the body of a response of Do if it has arrived completely and is short,
// else nil. Such a body needs no reads.
func CompleteBody(resp *http.Response) *client.WholeBody {
	b, ok := resp.Body.(*responseBody)
	if !ok {
		return nil
	}
	w, ok := b.ReadCloser.(*client.WholeBody)
	if !ok || w.Len() > maxCompleteBody || b.pace != nil {
		return nil
	}
	b.attempt.endWait(w.Len())
	b.attempt.end(false)
	return w
}

// Pace bounds a rate as nginx does: up to the rate times the seconds since its start, rounded up.
type Pace struct {
	rate  int64 // bytes per second
	start time.Time
}

// NewPace starts a Pace with a rate above 0.
func NewPace(rate int64) *Pace { return &Pace{rate, time.Now()} }

// Allowed returns how many bytes may have been transferred since the start, less than 1<<62, and the
// time until there are more.
func (p *Pace) Allowed() (bytes int64, rest time.Duration) {
	seconds := int64(time.Since(p.start)/time.Second) + 1
	if seconds >= 1<<62/p.rate {
		return 1<<62 - 1, 0
	}
	return p.rate * seconds, time.Until(p.start.Add(time.Duration(seconds) * time.Second))
}
