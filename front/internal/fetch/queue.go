package fetch

import (
	"errors"
	"io"
	"sync"

	"github.com/tarehq/tare/internal/connection"
)

// BufferSize is the maximum size of one copy of a response's body.
const BufferSize = 32 << 10

// PieceSize is how much is read at a time of what is neither buffered nor complete, as in nginx.
// Each client that reads slowly holds it: with BufferSize 10,000 of them took twice the memory.
const PieceSize = 8 << 10

// Queue holds the received part of a response that is not yet sent: first in memory, then in a
// file. Its goroutine receives, the caller's sends.
type Queue struct {
	body      io.ReadCloser
	receiving sync.WaitGroup
	buffers   *connection.Buffers
	maxPieces int   // in memory
	maxFile   int64 // negative: no file

	mu          sync.Mutex
	changed     sync.Cond
	pieces      [][]byte   // of buffers
	file        *spoolFile // nil until it is needed
	fileRead    int64      // bytes of the file that were read
	fileWritten int64      // bytes of the file that were written
	err         error      // of receiving; io.EOF at the end
	isAbandoned bool       // the sender has ended

	current  []byte // the sender's piece
	spoolErr error  // the file could not be created or written: memory only
}

// SpoolError returns why the file could not be created or written, or nil. The sender calls it.
func (q *Queue) SpoolError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.spoolErr
}

// NewQueue makes a Queue that receives a body, which begins with first. It holds at most maxPieces
// in memory, and maxFile bytes in a file; a negative maxFile is no file. The buffers, and that of
// first, are of BufferSize.
func NewQueue(body io.ReadCloser, first []byte, buffers *connection.Buffers, maxPieces int, maxFile int64) *Queue {
	q := &Queue{body: body, buffers: buffers, maxPieces: maxPieces, maxFile: maxFile, pieces: [][]byte{first}}
	q.changed.L = &q.mu
	q.receiving.Go(q.receive)
	return q
}

// receive reads the response to its end, or until the sender ends.
func (q *Queue) receive() {
	b := q.buffers.Get(BufferSize)
	for {
		n, err := q.body.Read(b)
		if n > 0 {
			if b = q.store(b, n); b == nil {
				return
			}
		}
		if err != nil {
			q.buffers.Put(b)
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
func (q *Queue) store(b []byte, n int) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		inFile := q.fileWritten > q.fileRead // the piece must follow what is in the file
		switch {
		case q.isAbandoned:
			q.buffers.Put(b)
			return nil
		case !inFile && len(q.pieces) < q.maxPieces:
			q.pieces = append(q.pieces, b[:n])
			q.changed.Broadcast()
			return q.buffers.Get(BufferSize)
		case q.spool(b[:n]):
			q.changed.Broadcast()
			return b
		}
		q.changed.Wait()
	}
}

// spool writes to the file, and reports whether there was room. The caller holds mu, which spool
// unlocks while it writes.
func (q *Queue) spool(b []byte) bool {
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

// Next returns the next bytes to send; they are valid until the next call. It calls idle once
// before it waits. It returns the error of receiving after the last bytes, io.EOF at the end.
func (q *Queue) Next(idle func()) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for notified := false; ; {
		switch {
		case len(q.pieces) > 0:
			q.release()
			q.current = q.pieces[0]
			q.pieces = append(q.pieces[:0], q.pieces[1:]...)
			q.changed.Broadcast()
			return q.current, nil
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
func (q *Queue) fromFile() ([]byte, error) {
	if q.current == nil {
		q.current = q.buffers.Get(BufferSize)
	}
	b := q.current[:min(BufferSize, q.fileWritten-q.fileRead)]
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
func (q *Queue) release() {
	if q.current != nil {
		q.buffers.Put(q.current[:BufferSize])
		q.current = nil
	}
}

// Forget keeps the sender's buffer from being reused.
func (q *Queue) Forget() { q.current = nil }

// Close closes the body, and releases the memory and the file.
func (q *Queue) Close() {
	q.mu.Lock()
	q.isAbandoned = true
	q.changed.Broadcast()
	q.mu.Unlock()
	_ = q.body.Close()
	q.receiving.Wait()
	q.release()
	for _, p := range q.pieces {
		q.buffers.Put(p[:BufferSize])
	}
	if q.file != nil {
		q.file.discard()
	}
}
