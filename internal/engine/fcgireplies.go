package engine

import (
	"sync"
	"time"

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
func (b *body) queueReply(event fcgi.Event, p fcgi.Piece) error {
	records := b.decoder.fcgiBody
	r := records.replies
	if r == nil {
		r = new(replyQueue)
		records.replies = r
	}
	r.mu.Lock()
	r.queued = appendReply(r.queued, event, p)
	empty, full := len(r.queued) == 0, len(r.queued) > maxReplyBytes
	start := !empty && !full && !b.draining && !r.sending
	r.sending = r.sending || start
	r.mu.Unlock()
	switch {
	case full && b.draining:
		return b.flushReplies()
	case full:
		return b.x.resp.sendReplies(r, true)
	case start:
		go func() { _ = b.x.resp.sendReplies(r, false) }() // an error ends the request's context
	}
	return nil
}

// flushReplies writes the queue while the body is drained, when the response's mutex is held.
func (b *body) flushReplies() error {
	r := b.decoder.fcgiBody.replies
	if r == nil || !b.draining {
		return nil
	}
	c := b.x.conn()
	if c.out = r.appendTo(c.out); len(c.out) == 0 {
		return nil
	}
	return c.flush()
}

// sendReplies writes the queue between two records of the response. If the response has ended, it
// has already written the queue. If flood is true, a deadline applies even if no setting limits
// writes.
func (w *response) sendReplies(r *replyQueue, flood bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkUsable(); err != nil {
		return err
	}
	c := w.conn
	if c.stdoutStart > 0 {
		c.closeRecord()
	}
	c.out = r.appendTo(c.out)
	if flood && c.writeTimeout <= 0 && c.defaultSendTimeout == 0 && !w.flags.has(handlerWriteDeadline) {
		c.setWriteDeadline(time.Now().Add(c.headTimeout))
		defer c.setWriteDeadline(time.Time{})
	}
	return c.flush()
}
