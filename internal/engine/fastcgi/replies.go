package fastcgi

import (
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// Records in STDIN that do not belong to the request get replies: management records, and other
// requests that begin. The goroutine that reads the body appends them to the output, between two
// records of the response. It flushes them before it waits for more input.

// reply appends the reply to a record. The caller holds reading.
func (f *codec) reply(b *exchange.Body, event fcgi.Event, p fcgi.Piece) error {
	unlock, err := lockOutput(b)
	if err != nil {
		return err
	}
	defer unlock()
	c := b.Exchange.Conn()
	f.endRecord(c)
	c.Out = appendReply(c.Out, event, p)
	if f.hasReplies = true; len(c.Out) >= exchange.OutSize {
		return f.sendReplies(b)
	}
	return nil
}

// flushReplies sends the replies that wait. The caller holds reading.
func (f *codec) flushReplies(b *exchange.Body) error {
	if !f.hasReplies {
		return nil
	}
	unlock, err := lockOutput(b)
	if err != nil {
		return err
	}
	defer unlock()
	return f.sendReplies(b)
}

// lockOutput locks the response's mutex. While the body is drained, the caller holds it already.
func lockOutput(b *exchange.Body) (unlock func(), err error) {
	w := &b.Exchange.Response
	if b.Draining {
		return func() {}, nil
	}
	w.Mu.Lock()
	if err := w.CheckUsable(); err != nil {
		w.Mu.Unlock()
		return nil, err
	}
	return w.Mu.Unlock, nil
}

// sendReplies flushes the output. A deadline applies even if no setting limits writes: the peer may
// send such records without end, and read nothing.
func (f *codec) sendReplies(b *exchange.Body) error {
	c := b.Exchange.Conn()
	f.hasReplies = false
	if c.Config.WriteTimeout <= 0 && c.Config.DefaultSendTimeout == 0 &&
		!b.Exchange.Response.Flags.Has(exchange.HandlerWriteDeadline) {
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
		defer c.SetWriteDeadline(time.Time{})
	}
	return c.Flush()
}
