package cache

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// A fill is a response on its way from the origin into the cache. One reader may read its body as
// far as it has come.
//
//	filling    -> filled | broken | handedOver
//	filled     the body is complete
//	broken     the origin failed: err
//	handedOver the body cannot be stored: the reader reads the rest from the origin
//
// The body is in memory first, and moves to a file when it is too long for that.
type fill struct {
	c       *Cache
	id      keyID
	head    *stored     // without the fields that are known at the end
	flight  *flight     // nil if no request waits
	still   func() bool // reports whether nothing was invalidated since the request was sent
	length  int64       // as announced by the origin, or -1
	body    io.ReadCloser
	most    int64  // maximum size of a body in memory
	whole   int64  // maximum size of a body
	bodyAt  int64  // in a file
	abandon func() // cancels the exchange with the origin

	mu           sync.Mutex
	moved        chan struct{} // closed at the next change; nil if no reader waits
	buf          []byte        // bytes received, unless they are in the file
	draft        *draft
	size         int64 // bytes received
	shown        int64 // the part of size that a reader may read before the end
	sum          uint32
	state        fillState
	err          error
	readerGone   bool        // there is no reader any more
	writerDone   bool        // nothing is written any more
	abandonTimer *time.Timer // abandons the fill if there is no reader
}

// newFill returns a fill for a response. It returns nil if the response is too long.
func (c *Cache) newFill(resp *http.Response, head *stored) *fill {
	f := &fill{c: c, head: head, length: resp.ContentLength, body: resp.Body, most: c.most.Load(),
		abandon: resp.Body.(*cancelingBody).end}
	if f.whole = f.most; c.disk != nil {
		f.whole = c.index.maxDisk.Load() / perDisk
	}
	if head.headOnly() {
		f.length = 0
	}
	_, p := encodeHead(prelude{}, head)
	if f.bodyAt = p.bodyAt(); f.length > f.whole || p.room > maxRoom {
		return nil
	}
	return f
}

// unstored returns a fill that stores nothing.
func unstored(resp *http.Response) *fill {
	return &fill{length: resp.ContentLength, body: resp.Body, state: handedOver, writerDone: true}
}

type fillState int

const (
	filling    fillState = iota
	filled               // the body is complete
	broken               // the body will never be complete: err
	handedOver           // the reader owns body, which holds the rest
)

const (
	firstPiece = 4 << 10
	piece      = 64 << 10
	sendPiece  = 16 << 10 // bytes copied for a client at a time
)

// start receives the response in a goroutine, and stores it.
func (f *fill) start() {
	f.c.fills.Add(1)
	f.c.routines.Go(func() {
		defer f.c.fills.Add(-1)
		kept := false
		defer func() { f.close(kept) }()
		defer func() {
			if p := recover(); p != nil { // from the origin's body
				f.c.panicked(p)
				f.finish(fmt.Errorf("cache: the origin panicked: %v", p))
			}
			tooLong := f.state == handedOver
			if tooLong {
				f.c.uncacheable.mark(f.id, time.Now().Add(uncacheableFor))
			}
			f.c.end(f.flight, !tooLong)
		}()
		if f.receive() {
			kept = f.keep()
		}
	})
}

// receive receives the body, and reports whether it is complete. finish informs readers of that.
func (f *fill) receive() bool {
	var outside []byte // reused for what goes to the file
	for {
		into := outside
		if f.draft == nil {
			if into = f.spare(); into == nil && !f.toFile() {
				f.handOver(nil, nil)
				return false
			}
		}
		if f.draft != nil && into == nil {
			outside = make([]byte, piece)
			into = outside
		}
		n, err := f.body.Read(into)
		if f.draft != nil {
			if f.draft.write(into[:n], f.bodyAt+f.size) != nil {
				f.handOver(into[:n], err)
				return false
			}
		}
		f.add(into[:n])
		switch {
		case errors.Is(err, io.EOF) && (f.length < 0 || f.size == f.length):
			return true
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			f.finish(err)
			return false
		}
		if f.size > f.whole || f.draft == nil && f.size > f.most && !f.toFile() {
			f.handOver(nil, nil)
			return false
		}
	}
}

// spare returns free memory behind what has come; nil if all fills together use too much. It
// doubles the buffer, whatever length the origin announced.
func (f *fill) spare() []byte {
	if len(f.buf) == cap(f.buf) {
		want := max(firstPiece, 2*int64(cap(f.buf)))
		if f.length >= 0 {
			first := min(f.length+1, piece) // one more byte, to see the end
			want = max(first, min(want, f.length+1), f.size+1)
		}
		more := want - int64(cap(f.buf))
		if f.c.pending.Add(more) > f.c.index.maxMemory.Load()/pendingPart {
			f.c.pending.Add(-more)
			return nil
		}
		bigger := make([]byte, len(f.buf), want)
		copy(bigger, f.buf)
		f.mu.Lock()
		f.buf = bigger
		f.mu.Unlock()
	}
	return f.buf[len(f.buf):cap(f.buf)]
}

func (f *fill) add(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draft == nil {
		f.buf = f.buf[:len(f.buf)+len(b)]
	}
	f.sum = checksum(f.sum, b)
	if f.size += int64(len(b)); f.size != f.length {
		// a reader of the whole response expects it to be stored: finish shows the last piece
		f.shown = f.size
		f.wake()
	}
}

// readable returns how far a reader may read. The caller holds mu.
func (f *fill) readable() int64 {
	if f.state == filling {
		return f.shown
	}
	return f.size
}

// toFile moves what has come from memory to a file.
func (f *fill) toFile() bool {
	if f.c.disk == nil {
		return false
	}
	d, err := f.c.disk.create(max(f.length, f.size))
	if err != nil {
		return false
	}
	if d.write(f.buf, f.bodyAt) != nil {
		d.discard()
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draft = d
	f.free()
	return true
}

// free releases the memory. The caller holds mu.
func (f *fill) free() {
	if f.buf == nil {
		return
	}
	f.c.pending.Add(-int64(cap(f.buf)))
	f.buf = nil
}

// trim replaces the buffer by b, which has the same content.
func (f *fill) trim(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.pending.Add(int64(cap(b) - cap(f.buf)))
	f.buf = b
}

// readFile makes the reader, if there still is one, read from the file instead of memory. It
// reports whether the fill must close the file.
func (f *fill) readFile(d *draft) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readerGone {
		return false
	}
	f.draft = d
	f.free()
	return true
}

// keep stores the response, and then informs the reader. A response in memory is written to disk
// afterwards.
func (f *fill) keep() (kept bool) {
	if f.draft != nil {
		defer f.finish(nil)
		s := f.head.complete(f.size)
		file, err := f.draft.keep(s, f.bodyAt, f.sum)
		if err != nil {
			return false
		}
		if _, kept = f.c.index.put(f.id, s, file, false, f.still); !kept {
			f.c.disk.remove(file)
		}
		return kept
	}
	body := f.buf
	if cap(body) > len(body)+len(body)/4+firstPiece {
		body = append(make([]byte, 0, len(body)), body...)
		f.trim(body)
	}
	s := f.head.complete(f.size)
	s.hold(body)
	e, kept := f.c.index.put(f.id, s, nil, f.c.disk != nil, f.still)
	f.finish(nil)
	f.c.end(f.flight, true)
	if kept && f.c.disk != nil {
		if file := f.write(s); !f.c.index.written(e, s, file) && file != nil {
			f.c.disk.remove(file)
		}
	}
	return kept
}

// write writes a response in memory to disk. It returns nil on failure: the response stays in
// memory only.
func (f *fill) write(s *stored) *file {
	d, err := f.c.disk.create(s.length)
	if err != nil {
		return nil
	}
	reads := false
	defer func() {
		d.remove() // has no effect if it was kept
		if !reads {
			d.file.Close()
		}
	}()
	if d.write(s.body, f.bodyAt) != nil {
		return nil
	}
	file, err := d.keep(s, f.bodyAt, f.sum)
	if err != nil {
		return nil
	}
	reads = f.readFile(d)
	return file
}

// finish informs the reader that the body is complete, or why it never will be. Nothing comes any
// more.
func (f *fill) finish(err error) {
	_ = f.body.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state = filled; err != nil {
		f.state, f.err = broken, err
	}
	f.wake()
}

// handOver passes the rest to the reader: b, which could not be written, and what comes after it.
func (f *fill) handOver(b []byte, err error) {
	if len(b) > 0 || err != nil {
		f.body = &remainder{append([]byte(nil), b...), err, f.body}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = handedOver
	if f.readerGone {
		_ = f.body.Close()
	}
	f.wake()
}

// close records that nothing is written any more, and removes a file that was not kept.
func (f *fill) close(kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writerDone = true
	if f.abandonTimer != nil {
		f.abandonTimer.Stop()
	}
	if f.draft != nil && !kept {
		f.draft.remove()
	}
	f.letGo()
}

// leave records that there is no reader any more. The cache may go on receiving the body for the
// time given.
func (f *fill) leave(timeout time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readerGone {
		return
	}
	f.readerGone = true
	switch {
	case f.state == handedOver:
		_ = f.body.Close()
	case !f.writerDone:
		f.abandonTimer = time.AfterFunc(timeout, f.abandon)
	}
	f.wake()
	f.letGo()
}

// letGo closes the file, or frees the memory, if it is no longer needed. The caller holds mu.
func (f *fill) letGo() {
	switch {
	case !f.writerDone || !f.readerGone:
	case f.draft != nil:
		_ = f.draft.file.Close()
	default:
		f.free()
	}
}

// wake lets the reader check again. The caller holds mu.
func (f *fill) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// remainder is what was read of a body and could not be stored, and what comes after it.
type remainder struct {
	b    []byte
	err  error
	rest io.ReadCloser
}

func (r *remainder) Read(p []byte) (int, error) {
	if len(r.b) > 0 {
		n := copy(p, r.b)
		r.b = r.b[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.rest.Read(p)
}

// HasInput implements inputReporter.
func (r *remainder) HasInput() bool { return len(r.b) > 0 || r.err != nil || HasInput(r.rest) }

func (r *remainder) Close() error { return r.rest.Close() }

// cancelingBody is a body that calls end when it is closed.
type cancelingBody struct {
	io.ReadCloser
	end func()
}

// HasInput implements inputReporter.
func (b *cancelingBody) HasInput() bool { return HasInput(b.ReadCloser) }

func (b *cancelingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
