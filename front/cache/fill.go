package cache

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// fill is a body on its way from the origin into the cache. One other may read it as far as it has come. It is in memory first,
// and goes to a file when it is too long for that. Should it turn out that it cannot be kept, what is left of it is handed over to
// the reader.
type fill struct {
	length  int64 // as the origin said, or -1
	body    io.ReadCloser
	most    int64         // bytes that are kept in memory
	whole   int64         // bytes that are kept at all
	pending *atomic.Int64 // bytes in memory of all fills
	room    int64         // of all fills
	disk    *disk         // nil if there is none
	bodyAt  int64         // in a file
	abandon func()        // ends the body

	mu    sync.Mutex
	moved chan struct{} // closed at the next change; nil if nobody waits
	buf   []byte        // what has come, unless it is in the file
	file  *draft
	size  int64 // what has come
	shown int64 // of that what a reader may have while the rest comes
	sum   uint32
	state fillState
	err   error
	lone  bool        // nobody reads
	over  bool        // nothing is written any more
	alone *time.Timer // gives it up, if nobody reads
}

// passing is a fill of which nothing is kept.
func passing(resp *http.Response) *fill {
	return &fill{length: resp.ContentLength, body: resp.Body, state: handedOver, over: true}
}

type fillState int

const (
	filling    fillState = iota
	filled               // all is there
	broken               // and never will be: err
	handedOver           // the rest is in body, which belongs to the reader
)

const (
	firstPiece = 4 << 10
	piece      = 64 << 10
	sendPiece  = 16 << 10 // is copied for a client at a time
)

// run receives the body, and reports whether all of it is there. Readers learn of that by finish.
func (f *fill) run() bool {
	var outside []byte // of memory that is kept: what goes to the file
	for {
		into := outside
		if f.file == nil {
			if into = f.spare(); into == nil && !f.toFile() {
				f.handOver(nil, nil)
				return false
			}
		}
		if f.file != nil && into == nil {
			outside = make([]byte, piece)
			into = outside
		}
		n, err := f.body.Read(into)
		if f.file != nil {
			if _, writeErr := f.file.WriteAt(into[:n], f.bodyAt+f.size); writeErr != nil {
				f.handOver(into[:n], err)
				return false
			}
		}
		f.took(into[:n])
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
		if f.size > f.whole || !f.fits() {
			f.handOver(nil, nil)
			return false
		}
	}
}

// spare is room after what is in memory: nil if there is none for all fills together. As much is made as has come, whatever the origin says
// of the length.
func (f *fill) spare() []byte {
	if len(f.buf) == cap(f.buf) {
		want := max(firstPiece, 2*int64(cap(f.buf)))
		if f.length >= 0 {
			first := min(f.length+1, piece) // one more, so that the end is seen
			want = max(first, min(want, f.length+1), f.size+1)
		}
		more := want - int64(cap(f.buf))
		if f.pending.Add(more) > f.room {
			f.pending.Add(-more)
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

// took notes what was read.
func (f *fill) took(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		f.buf = f.buf[:len(f.buf)+len(b)]
	}
	f.sum = checksum(f.sum, b)
	if f.size += int64(len(b)); f.size != f.length {
		f.shown = f.size // who has all of an answer finds it kept: so the last piece is shown by finish
		f.wake()
	}
}

// readable is how much a reader may have. The caller holds mu.
func (f *fill) readable() int64 {
	if f.state == filling {
		return f.shown
	}
	return f.size
}

// fits reports whether there is room for what has come, in memory or else on disk.
func (f *fill) fits() bool { return f.file != nil || f.size <= f.most || f.toFile() }

// toFile moves what has come from memory to a file.
func (f *fill) toFile() bool {
	if f.disk == nil {
		return false
	}
	d, err := f.disk.create(max(f.length, f.size))
	if err != nil {
		return false
	}
	if _, err := d.WriteAt(f.buf, f.bodyAt); err != nil {
		d.discard()
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file = d
	f.free()
	return true
}

// free gives back what is in memory. f.mu is held.
func (f *fill) free() {
	if f.buf == nil {
		return
	}
	f.pending.Add(-int64(cap(f.buf)))
	f.buf = nil
}

// trim has what is in memory be b, which is the same.
func (f *fill) trim(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending.Add(int64(cap(b) - cap(f.buf)))
	f.buf = b
}

// readFile has a reader, if there still is one, read what is stored from its file, and no longer from memory. It reports whether the file
// is the fill's to close.
func (f *fill) readFile(d *draft) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lone {
		return false
	}
	f.file = d
	f.free()
	return true
}

// finish tells the reader that the body is there, or why it never will be. Nothing comes any more.
func (f *fill) finish(err error) {
	_ = f.body.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state = filled; err != nil {
		f.state, f.err = broken, err
	}
	f.wake()
}

// handOver gives the rest to the reader: b, which could not be written, and what comes after it.
func (f *fill) handOver(b []byte, err error) {
	if len(b) > 0 || err != nil {
		f.body = &remainder{append([]byte(nil), b...), err, f.body}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = handedOver
	if f.lone {
		_ = f.body.Close()
	}
	f.wake()
}

// close notes that nothing is written any more, and removes a file that was not kept.
func (f *fill) close(kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.alone != nil {
		f.alone.Stop()
	}
	if f.file != nil && !kept {
		f.file.remove()
	}
	f.letGo()
}

// leave notes that nobody reads any more. What is not there yet is fetched on for so long, for the cache.
func (f *fill) leave(on time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lone {
		return
	}
	f.lone = true
	switch {
	case f.state == handedOver:
		_ = f.body.Close()
	case !f.over:
		f.alone = time.AfterFunc(on, f.abandon)
	}
	f.wake()
	f.letGo()
}

// letGo closes the file, or frees the memory, if nobody needs it. f.mu is held.
func (f *fill) letGo() {
	switch {
	case !f.over || !f.lone:
	case f.file != nil:
		_ = f.file.Close()
	default:
		f.free()
	}
}

// wake has the reader look again. f.mu is held.
func (f *fill) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// remainder is what was read of a body and could not be kept, and what comes after it.
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

func (r *remainder) Close() error { return r.rest.Close() }
