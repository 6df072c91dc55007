package front

import (
	"errors"
	"io"
	"sync"
)

// queue is what was received of an answer and not yet sent: in memory, and behind that in a file. One goroutine receives, another sends.
type queue struct {
	state     *state
	maxPieces int   // in memory
	maxFile   int64 // below zero is none

	mu      sync.Mutex
	changed sync.Cond
	pieces  []piece
	file    *temporary // made when it is needed
	read    int64      // bytes of the file that were sent
	wrote   int64      // and that there are
	err     error      // of receiving; io.EOF at the end
	left    bool       // nobody sends any more

	sending    piece // what the sender has
	spoolError error // a file could not be made or written: there is memory only
}

// piece is a part of an answer.
type piece struct {
	b *relayBuffer
	n int
}

func newQueue(s *state, maxPieces int, maxFile int64) *queue {
	q := &queue{state: s, maxPieces: maxPieces, maxFile: maxFile}
	q.changed.L = &q.mu
	return q
}

// put adds a piece in memory.
func (q *queue) put(b *relayBuffer, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pieces = append(q.pieces, piece{b, n})
	q.changed.Broadcast()
}

// receive reads an answer to its end, or until nobody sends any more.
func (q *queue) receive(from io.Reader) {
	b := q.state.takeBuffer()
	for empty := 0; ; {
		n, err := from.Read(b[:])
		if n > 0 {
			empty = 0
			if b = q.keep(b, n); b == nil {
				return
			}
		} else if empty++; err == nil && empty == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			q.state.giveBuffer(b)
			q.mu.Lock()
			q.err = err
			q.changed.Broadcast()
			q.mu.Unlock()
			return
		}
	}
}

// keep puts a piece where there is room, and waits for that if there is none. It returns a buffer for the next one, or nil if
// nobody sends any more.
func (q *queue) keep(b *relayBuffer, n int) *relayBuffer {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		filed := q.wrote > q.read // what comes now is behind what is in the file
		switch {
		case q.left:
			q.state.giveBuffer(b)
			return nil
		case !filed && len(q.pieces) < q.maxPieces:
			q.pieces = append(q.pieces, piece{b, n})
			q.changed.Broadcast()
			return q.state.takeBuffer()
		case q.spool(b[:n]):
			q.changed.Broadcast()
			return b
		}
		q.changed.Wait()
	}
}

// spool writes to the file, and reports whether there was room. The caller holds mu, which is not held meanwhile.
func (q *queue) spool(b []byte) bool {
	if q.read == q.wrote {
		q.read, q.wrote = 0, 0
	}
	at := q.wrote
	if q.spoolError != nil || at+int64(len(b)) > q.maxFile {
		return false
	}
	file, err := q.file, error(nil)
	q.mu.Unlock()
	if file == nil {
		file, err = newTemporary()
	}
	if err == nil {
		_, err = file.WriteAt(b, at)
	}
	q.mu.Lock()
	if q.file = file; err != nil {
		q.spoolError = err
		return false
	}
	q.wrote = at + int64(len(b))
	return true
}

// next returns the next bytes to be sent, which hold until the next call. Before it waits it calls idle. Its error is that of
// receiving: io.EOF if that was all.
func (q *queue) next(idle func()) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for told := false; ; {
		switch {
		case len(q.pieces) > 0:
			q.release()
			q.sending = q.pieces[0]
			q.pieces = append(q.pieces[:0], q.pieces[1:]...)
			q.changed.Broadcast()
			return q.sending.b[:q.sending.n], nil
		case q.wrote > q.read:
			return q.fromFile()
		case q.err != nil:
			return nil, q.err
		case !told:
			told = true
			q.mu.Unlock()
			idle()
			q.mu.Lock()
		default:
			q.changed.Wait()
		}
	}
}

// fromFile returns what is next in the file. The caller holds mu.
func (q *queue) fromFile() ([]byte, error) {
	if q.sending.b == nil {
		q.sending.b = q.state.takeBuffer()
	}
	b := q.sending.b[:min(relayPiece, q.wrote-q.read)]
	at, file := q.read, q.file
	q.mu.Unlock()
	n, err := file.ReadAt(b, at)
	q.mu.Lock()
	if n < len(b) {
		return nil, errors.Join(errors.New("reading what was spooled"), err)
	}
	q.read += int64(n)
	q.changed.Broadcast()
	return b, nil
}

// release gives back what the sender had.
func (q *queue) release() {
	if q.sending.b != nil {
		q.state.giveBuffer(q.sending.b)
		q.sending.b = nil
	}
}

// leave tells that nobody sends any more.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = true
	q.changed.Broadcast()
}

// close gives back what there is. Nobody receives or sends any more.
func (q *queue) close() {
	q.release()
	for _, p := range q.pieces {
		q.state.giveBuffer(p.b)
	}
	q.pieces = nil
	if q.file != nil {
		q.file.discard()
	}
}
