package fastcgi

import (
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// replyQueue holds replies to records in STDIN that do not belong to the request: management
// records, and other requests that begin. The goroutine that reads the body queues them. Another
// one writes them, because the web server may not read before it has sent all of STDIN.
type replyQueue struct {
	mu      sync.Mutex
	queued  []byte
	sending bool // a goroutine that writes them has started
}

// maxReplyBytes limits the queue. If it is longer, the reader of the body writes it.
const maxReplyBytes = 1 << 10

// appendTo appends the queued replies to out and empties the queue.
func (r *replyQueue) appendTo(out []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = append(out, r.queued...)
	r.queued, r.sending = nil, false
	return out
}

// queueReply queues the reply to a record. The caller holds reading.
func (f *codec) queueReply(b *exchange.Body, event fcgi.Event, p fcgi.Piece) error {
	if f.replies == nil {
		f.replies = new(replyQueue)
	}
	r, w := f.replies, &b.Exchange.Response
	r.mu.Lock()
	r.queued = appendReply(r.queued, event, p)
	empty, full := len(r.queued) == 0, len(r.queued) > maxReplyBytes
	start := !empty && !full && !b.Draining && !r.sending
	r.sending = r.sending || start
	r.mu.Unlock()
	switch {
	case full && b.Draining:
		return f.flushReplies(b)
	case full:
		return f.sendReplies(w, r, true)
	case start:
		go func() { _ = f.sendReplies(w, r, false) }() // an error ends the request's context
	}
	return nil
}

// flushReplies writes the queue while the body is drained, when the response's mutex is held.
func (f *codec) flushReplies(b *exchange.Body) error {
	if f.replies == nil || !b.Draining {
		return nil
	}
	c := b.Exchange.Conn()
	if c.Out = f.replies.appendTo(c.Out); len(c.Out) == 0 {
		return nil
	}
	return c.Flush()
}

// sendReplies writes the queue between two records of the response. If the response has ended, it
// has already written the queue. If flood is true, a deadline applies even if no setting limits
// writes.
func (f *codec) sendReplies(w *exchange.Response, r *replyQueue, flood bool) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if err := w.CheckUsable(); err != nil {
		return err
	}
	c := w.Conn
	f.endRecord(c)
	c.Out = r.appendTo(c.Out)
	unlimited := c.Config.WriteTimeout <= 0 && c.Config.DefaultSendTimeout == 0 &&
		!w.Flags.Has(exchange.HandlerWriteDeadline)
	if flood && unlimited {
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
		defer c.SetWriteDeadline(time.Time{})
	}
	return c.Flush()
}
