package front

import (
	"errors"
	"io"
	"sync"
)

// responseQueue holds the received part of a response that is not yet sent: first in memory, then
// in a file. One goroutine receives, another sends.
type responseQueue struct {
	state     *state
	maxPieces int   // in memory
	maxFile   int64 // negative: no file

	mu          sync.Mutex
	changed     sync.Cond
	pieces      []queuePiece
	file        *spoolFile // nil until it is needed
	fileRead    int64      // bytes of the file that were read
	fileWritten int64      // bytes of the file that were written
	err         error      // of receiving; io.EOF at the end
	isAbandoned bool       // the sender has ended

	current  queuePiece // the sender's piece
	spoolErr error      // the file could not be created or written: memory only
}

// queuePiece is a part of a response.
type queuePiece struct {
	b *relayBuffer
	n int
}

func newResponseQueue(s *state, maxPieces int, maxFile int64) *responseQueue {
	q := &responseQueue{state: s, maxPieces: maxPieces, maxFile: maxFile}
	q.changed.L = &q.mu
	return q
}

// put adds a piece in memory.
func (q *responseQueue) put(b *relayBuffer, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pieces = append(q.pieces, queuePiece{b, n})
	q.changed.Broadcast()
}

// receive reads a response to its end, or until the sender ends.
func (q *responseQueue) receive(from io.Reader) {
	b := q.state.acquireBuffer()
	for empty := 0; ; {
		n, err := from.Read(b[:])
		if n > 0 {
			empty = 0
			if b = q.store(b, n); b == nil {
				return
			}
		} else if empty++; err == nil && empty == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			q.state.releaseBuffer(b)
			q.mu.Lock()
			q.err = err
			q.changed.Broadcast()
			q.mu.Unlock()
			return
		}
	}
}

// store stores a piece, and waits while there is no room. It returns a buffer for the next piece,
// or nil if the sender has ended.
func (q *responseQueue) store(b *relayBuffer, n int) *relayBuffer {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		inFile := q.fileWritten > q.fileRead // the piece must follow what is in the file
		switch {
		case q.isAbandoned:
			q.state.releaseBuffer(b)
			return nil
		case !inFile && len(q.pieces) < q.maxPieces:
			q.pieces = append(q.pieces, queuePiece{b, n})
			q.changed.Broadcast()
			return q.state.acquireBuffer()
		case q.spool(b[:n]):
			q.changed.Broadcast()
			return b
		}
		q.changed.Wait()
	}
}

// spool writes to the file, and reports whether there was room. The caller holds mu, which spool
// unlocks while it writes.
func (q *responseQueue) spool(b []byte) bool {
	if q.fileRead == q.fileWritten {
		q.fileRead, q.fileWritten = 0, 0
	}
	at := q.fileWritten
	if q.spoolErr != nil || at+int64(len(b)) > q.maxFile {
		return false
	}
	file, err := q.file, error(nil)
	q.mu.Unlock()
	if file == nil {
		file, err = newSpoolFile()
	}
	if err == nil {
		_, err = file.WriteAt(b, at)
	}
	q.mu.Lock()
	if q.file = file; err != nil {
		q.spoolErr = err
		return false
	}
	q.fileWritten = at + int64(len(b))
	return true
}

// next returns the next bytes to send; they are valid until the next call. It calls idle once
// before it waits. It returns the error of receiving after the last bytes, io.EOF at the end.
func (q *responseQueue) next(idle func()) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for notified := false; ; {
		switch {
		case len(q.pieces) > 0:
			q.release()
			q.current = q.pieces[0]
			q.pieces = append(q.pieces[:0], q.pieces[1:]...)
			q.changed.Broadcast()
			return q.current.b[:q.current.n], nil
		case q.fileWritten > q.fileRead:
			return q.fromFile()
		case q.err != nil:
			return nil, q.err
		case !notified:
			notified = true
			q.mu.Unlock()
			idle()
			q.mu.Lock()
		default:
			q.changed.Wait()
		}
	}
}

// fromFile returns the next bytes of the file. The caller holds mu.
func (q *responseQueue) fromFile() ([]byte, error) {
	if q.current.b == nil {
		q.current.b = q.state.acquireBuffer()
	}
	b := q.current.b[:min(relayPiece, q.fileWritten-q.fileRead)]
	at, file := q.fileRead, q.file
	q.mu.Unlock()
	n, err := file.ReadAt(b, at)
	q.mu.Lock()
	if n < len(b) {
		return nil, errors.Join(errors.New("reading the spool file"), err)
	}
	q.fileRead += int64(n)
	q.changed.Broadcast()
	return b, nil
}

// release returns the sender's buffer.
func (q *responseQueue) release() {
	if q.current.b != nil {
		q.state.releaseBuffer(q.current.b)
		q.current.b = nil
	}
}

// forget keeps the sender's buffer from being reused.
func (q *responseQueue) forget() { q.current.b = nil }

// abandon marks that the sender has ended.
func (q *responseQueue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isAbandoned = true
	q.changed.Broadcast()
}

// close releases the memory and the file. Receiver and sender must have ended.
func (q *responseQueue) close() {
	q.release()
	for _, p := range q.pieces {
		q.state.releaseBuffer(p.b)
	}
	q.pieces = nil
	if q.file != nil {
		q.file.discard()
	}
}
