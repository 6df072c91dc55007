package cache

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// intake is a response on its way into the cache.
type intake struct {
	c      *Cache
	id     keyID
	head   *stored // without the fields that are known at the end
	fill   *fill
	flight *flight // nil if no request waits
	change uint64  // the count of invalidations when the request was sent
}

// still reports whether nothing was invalidated meanwhile.
func (in *intake) still() bool { return in.c.changes.of(in.id).Load() == in.change }

// begin starts to receive a response in a goroutine. It returns false, without effect, if the
// response is too long.
func (in *intake) begin(resp *http.Response) bool {
	c := in.c
	most := c.most.Load()
	whole := most
	if c.disk != nil {
		whole = c.index.maxDisk.Load() / perDisk
	}
	length := resp.ContentLength
	if in.head.headOnly() {
		length = 0
	}
	if length > whole {
		return false
	}
	_, p := encodeHead(prelude{}, in.head)
	if p.room > maxRoom {
		return false
	}
	in.fill = &fill{
		length: length, body: resp.Body, most: most, whole: whole,
		pending: &c.pending, room: c.index.maxMemory.Load() / pendingPart, disk: c.disk, bodyAt: p.bodyAt(),
	}
	in.fill.abandon = resp.Body.(*cancelingBody).end
	c.intakes.Add(1)
	c.routines.Go(in.run)
	return true
}

func (in *intake) run() {
	c := in.c
	defer c.intakes.Add(-1)
	kept := false
	defer func() { in.fill.close(kept) }()
	defer func() {
		if p := recover(); p != nil { // from the origin's body
			c.panicked(p)
			in.fill.finish(fmt.Errorf("cache: the origin panicked: %v", p))
		}
		tooLong := in.fill.state == handedOver
		if tooLong {
			c.uncacheable.mark(in.id, time.Now().Add(uncacheableFor))
		}
		c.end(in.flight, !tooLong)
	}()
	if in.fill.run() {
		kept = in.keep()
	}
}

// keep stores the response, and then informs the reader. A response in memory is written to disk
// afterwards.
func (in *intake) keep() (kept bool) {
	f := in.fill
	if f.draft != nil {
		defer f.finish(nil)
		s := in.head.complete(f.size, nil, true)
		file, err := f.draft.keep(s, f.bodyAt, f.sum)
		if err != nil {
			return false
		}
		if _, kept = in.c.index.put(in.id, s, file, false, in.still); !kept {
			in.c.disk.remove(file)
		}
		return kept
	}
	body := f.buf
	if cap(body) > len(body)+len(body)/4+firstPiece {
		body = append(make([]byte, 0, len(body)), body...)
		f.trim(body)
	}
	s := in.head.complete(f.size, body, false)
	e, kept := in.c.index.put(in.id, s, nil, in.c.disk != nil, in.still)
	f.finish(nil)
	in.c.end(in.flight, true)
	if kept && in.c.disk != nil {
		if file := in.write(s); !in.c.index.written(e, s, file) && file != nil {
			in.c.disk.remove(file)
		}
	}
	return kept
}

// write writes a response in memory to disk. It returns nil on failure: the response stays in
// memory only.
func (in *intake) write(s *stored) *file {
	d, err := in.c.disk.create(s.length)
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
	if d.write(s.body, in.fill.bodyAt) != nil {
		return nil
	}
	file, err := d.keep(s, in.fill.bodyAt, in.fill.sum)
	if err != nil {
		return nil
	}
	reads = in.fill.readFile(d)
	return file
}

// refresh makes a validated response fresh. If its file cannot be updated, the response is
// validated again after a restart.
func (c *Cache) refresh(e *entry, old, fresh *stored, still func() bool) {
	if !c.index.replace(e, old, fresh, still) {
		return
	}
	if f := c.index.fileOf(e); f != nil {
		_ = c.disk.describe(f, fresh)
	}
}

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
