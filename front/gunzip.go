package front

import (
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// startGunzip decompresses a response that the client must not get compressed.
func (g *compression) startGunzip(w *writer) {
	header := w.Header()
	if !strings.EqualFold(header.Get("Content-Encoding"), "gzip") || w.status == http.StatusPartialContent {
		return
	}
	if g.vary {
		addVary(header)
	}
	if g.isAllowed(w.x, w.x.r, header) {
		return
	}
	delete(header, "Content-Encoding")
	delete(header, "Content-Length")
	delete(header, "Accept-Ranges")
	weakenEtag(header)
	if w.x.r.Method != http.MethodHead && bodyAllowed(w.status) {
		w.gunzip = newGunzipWriter(w)
	}
}

// gunzipWriter decompresses the body of a response. A decompressor reads, while a body is written:
// so it runs in a coroutine, which continues when there is more to read.
type gunzipWriter struct {
	input  []byte // that the decompressor has not read yet
	ended  bool   // no more input follows
	err    error  // of the decompressor or of writing its output
	resume func() (struct{}, bool)
	stop   func()
	pause  func(struct{}) bool // returns false if the response has ended
}

// gunzipPiece is the size of a piece of decompressed output.
const gunzipPiece = 8 << 10

func newGunzipWriter(w *writer) *gunzipWriter {
	z := new(gunzipWriter)
	z.resume, z.stop = iter.Pull(func(yield func(struct{}) bool) {
		z.pause = yield
		z.err = z.run(w)
	})
	return z
}

// run decompresses the input. The coroutine runs it.
func (z *gunzipWriter) run(w *writer) error {
	r, err := gzip.NewReader(z)
	if err != nil {
		return err
	}
	// the decompressor's WriteTo would have buffers of its own
	_, err = io.CopyBuffer(gunzipOutput{w}, struct{ io.Reader }{r}, make([]byte, gunzipPiece))
	if err != nil && w.x.r.Context().Err() == nil {
		w.x.errorf(levelError, "gunzip: %v", err)
	}
	return err
}

// gunzipOutput is where decompressed bytes go.
type gunzipOutput struct{ w *writer }

func (o gunzipOutput) Write(p []byte) (int, error) { return o.w.filter(p) }

// Read implements io.Reader for the decompressor. It pauses the coroutine until there is input.
func (z *gunzipWriter) Read(p []byte) (int, error) {
	for len(z.input) == 0 {
		if z.ended || !z.pause(struct{}{}) {
			return 0, io.EOF
		}
	}
	n := copy(p, z.input)
	z.input = z.input[n:]
	return n, nil
}

// Write decompresses a part of the body.
func (z *gunzipWriter) Write(p []byte) (int, error) {
	if z.ended {
		return 0, http.ErrBodyNotAllowed
	}
	z.input = p
	if _, running := z.resume(); !running && z.err != nil {
		return 0, z.err
	}
	z.input = nil // bytes after the end are ignored, as in nginx
	return len(p), nil
}

// close ends the input. An incomplete body is an error.
func (z *gunzipWriter) close() error {
	if !z.ended {
		z.ended = true
		z.resume()
	}
	return z.err
}

// release ends the coroutine.
func (z *gunzipWriter) release() {
	z.ended = true
	z.stop()
}
