package transform

import (
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
)

// startGunzip decompresses a response that the client must not get compressed.
func (g *compression) startGunzip(w *core.Writer) {
	header := w.Header()
	if !strings.EqualFold(header.Get("Content-Encoding"), "gzip") || w.Status == http.StatusPartialContent {
		return
	}
	if g.vary {
		message.AddVary(header)
	}
	if g.isAllowed(w.X, w.X.Request, header) {
		return
	}
	delete(header, "Content-Encoding")
	message.ReplaceBody(header)
	if w.X.Request.Method != http.MethodHead && message.BodyAllowed(w.Status) {
		w.Stages[core.GunzipStage] = &gunzipWriter{w: w}
	}
}

// gunzipWriter is the stage that decompresses a body. A decompressor reads, while a body is
// written. So it has a goroutine, which runs only while Write, Close or release waits for it:
//
//	idle      nothing was written; there is no goroutine
//	waiting   the decompressor waits for input
//	running   it reads input and writes output; the writer waits
//	done      the goroutine has ended
//
//	idle, waiting -> running         resume
//	running       -> waiting, done   it needs more input; it has an error, or the body's end
//
// A coroutine of package iter would be faster. But with one a handler that locks its goroutine to a
// thread while it writes, or that has unlocked it since, would crash the process.
type gunzipWriter struct {
	core.PlainStage
	w         *core.Writer
	input     []byte // that the decompressor has not read yet
	ended     bool   // no more input follows
	abandoned bool   // no more output is wanted
	err       error  // of the decompressor or of writing its output

	turn  chan struct{} // makes the decompressor run; nil if idle
	pause chan struct{} // it does not run any more
	done  bool
	panic any // of writing output; nil without one
}

// gunzipPiece is the size of a piece of decompressed output.
const gunzipPiece = 8 << 10

// resume lets the decompressor run until it waits for input, or has ended.
func (z *gunzipWriter) resume() {
	switch {
	case z.done:
		return
	case z.turn == nil:
		z.turn, z.pause = make(chan struct{}), make(chan struct{})
		go z.run()
	default:
		z.turn <- struct{}{}
	}
	<-z.pause
	if recovered := z.panic; recovered != nil {
		z.panic = nil
		panic(recovered)
	}
}

func (z *gunzipWriter) run() {
	defer func() {
		z.panic, z.done = recover(), true
		z.pause <- struct{}{}
	}()
	z.err = z.decompress()
}

func (z *gunzipWriter) decompress() error {
	r, err := gzip.NewReader(z)
	if err != nil {
		return err
	}
	// the decompressor's WriteTo would have buffers of its own
	_, err = io.CopyBuffer(gunzipOutput{z}, struct{ io.Reader }{r}, make([]byte, gunzipPiece))
	if x := z.w.X; err != nil && !z.abandoned && x.Request.Context().Err() == nil {
		x.Errorf(errorlog.LevelError, "gunzip: %v", err)
	}
	return err
}

type gunzipOutput struct{ from *gunzipWriter }

func (o gunzipOutput) Write(p []byte) (int, error) {
	if o.from.abandoned {
		return 0, http.ErrAbortHandler
	}
	return o.from.w.Pass(core.GunzipStage+1, p)
}

// Read implements io.Reader for the decompressor. It waits until there is input.
func (z *gunzipWriter) Read(p []byte) (int, error) {
	for len(z.input) == 0 {
		if z.ended {
			return 0, io.EOF
		}
		z.pause <- struct{}{}
		<-z.turn
	}
	n := copy(p, z.input)
	z.input = z.input[n:]
	return n, nil
}

// Write decompresses a part of the body. It fails if the body is not valid, which includes bytes
// after its end that are no further member, as in nginx.
func (z *gunzipWriter) Write(p []byte) (int, error) {
	if z.ended {
		return 0, http.ErrBodyNotAllowed
	}
	z.input = p
	z.resume()
	if z.input = nil; z.err != nil {
		return 0, z.err
	}
	return len(p), nil
}

// Close ends the input. After an error the client sees that the response is incomplete.
func (z *gunzipWriter) Close() error {
	z.ended = true
	z.resume()
	if z.err != nil {
		_ = z.w.FlushError()
		panic(http.ErrAbortHandler)
	}
	return nil
}

// Release ends the goroutine.
func (z *gunzipWriter) Release() {
	z.ended, z.abandoned = true, true
	if z.turn != nil {
		z.resume()
	}
}
