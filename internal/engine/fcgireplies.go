package engine

import (
	"sync"
	"time"

	"github.com/tarehq/tare/internal/wire/fcgi"
)

// replies are the responses to records in STDIN that do not belong to the request: management
// records, and other requests that begin. The goroutine that reads the body queues them. Another
// one writes them, because the web server may not read before it has sent all of STDIN.
type replies struct {
	mu      sync.Mutex
	queued  []byte
	sending bool // a goroutine that writes them was started
}

// maxReplies bounds the bytes that are queued. If there are more, the reader of the body writes them.
const maxReplies = 1 << 10

// take appends what is queued to out.
func (r *replies) take(out []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = append(out, r.queued...)
	r.queued, r.sending = nil, false
	return out
}

// reply queues the reply to a record. The caller holds reading.
func (b *body) reply(event fcgi.Event, p fcgi.Piece) error {
	records := b.coded.records
	r := records.replies
	if r == nil {
		r = new(replies)
		records.replies = r
	}
	r.mu.Lock()
	r.queued = appendReply(r.queued, event, p)
	empty, full := len(r.queued) == 0, len(r.queued) > maxReplies
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

// flushReplies writes what is queued while the body is drained: the response's mutex is held then.
func (b *body) flushReplies() error {
	r := b.coded.records.replies
	if r == nil || !b.draining {
		return nil
	}
	c := b.x.conn()
	if c.out = r.take(c.out); len(c.out) == 0 {
		return nil
	}
	return c.flush()
}

// sendReplies writes what is queued between two records of the response. If the response has
// ended, it has them already. A flood is bounded in time even if no setting bounds writes.
func (w *response) sendReplies(r *replies, flood bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	c := w.conn
	if c.stdout > 0 {
		c.closeRecord()
	}
	c.out = r.take(c.out)
	if flood && c.write <= 0 && c.stallTime == 0 && !w.marks.has(ownWriteDeadline) {
		c.setWriteDeadline(time.Now().Add(c.headTime))
		defer c.setWriteDeadline(time.Time{})
	}
	return c.flush()
}
