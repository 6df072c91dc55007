package files

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/internal/connection"
)

const (
	// heldBack is the end of a file, which is sent after a check that the rest has not changed.
	heldBack = 1 << 10
	// copySize is the buffer for connections that the kernel cannot copy to.
	copySize = 64 << 10
)

// respond sends a resource. With returnsUnmet it returns 412 and 416, which the caller must send. It
// returns false, without effect, if a file has changed.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, res *resource, returnsUnmet bool) (status int,
	ok bool) {
	v := h.choose(res, r.Header)
	if v == nil {
		if res.varies { // other clients get the file
			w.Header().Add("Vary", "Accept-Encoding")
		}
		return http.StatusNotFound, true
	}
	o := byterange.Selection{Status: http.StatusOK}
	if len(r.Header) > 0 && byterange.MaySelect(r.Header) {
		by := h.plan.config.Selector
		if r.Method != http.MethodGet { // ranges are defined for GET only
			by.MaxRanges = -1
		}
		o = by.Select(r.Header, v.etag, v.modified, v.size)
	}
	body := r.Method != http.MethodHead && v.size > 0 && !o.IsUnmet() && o.Status != http.StatusNotModified
	var f *os.File
	if body && v.content == nil {
		var err error
		if f, err = h.reopen(v); err != nil {
			return 0, false
		}
		defer f.Close()
	}
	var parts []byterange.Part
	if raw, ok := w.(connection.RawSender); ok && o.Status == http.StatusOK && v.head.Text != nil &&
		raw.TakesRawHeader(o.Status) {
		raw.WriteRawHeader(o.Status, v.head.Text, v.head.Fields, v)
	} else {
		header := w.Header()
		if returnsUnmet && o.IsUnmet() {
			o.SetHeader(header)
			return o.Status, true
		}
		v.AddTo(header)
		parts = o.SetHeader(header)
		if o.IsUnmet() {
			header["Content-Length"] = []string{"0"}
		}
		if o.Status != http.StatusOK || f != nil { // otherwise the first Write implies it
			w.WriteHeader(o.Status)
		}
	}
	switch {
	case !body:
	case f != nil:
		h.sendFile(w, v, f, parts)
	case parts == nil:
		_, _ = w.Write(v.content)
	default:
		for _, p := range parts {
			_, _ = io.WriteString(w, p.Before)
			_, _ = w.Write(v.content[p.From:p.End()])
			_, _ = io.WriteString(w, p.After)
		}
	}
	return 0, true
}

// sendFile sends a file that is not in memory. If the file changes, ends early or cannot be read,
// sendFile closes the connection, because the length has already been sent. It does so by a panic
// that servers do not log.
func (h *Handler) sendFile(w http.ResponseWriter, v *variant, f *os.File, parts []byterange.Part) {
	if parts == nil {
		parts = []byterange.Part{{Range: byterange.Range{Length: v.size}}}
	}
	for i, p := range parts {
		if err := h.sendPart(w, v, f, p, i == len(parts)-1); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// errChanged reports that a file is no longer the one that was loaded.
var errChanged = errors.New("file has changed")

// reopen opens a variant's file.
func (h *Handler) reopen(v *variant) (*os.File, error) {
	o, err := h.open(v.name)
	if err != nil {
		return nil, err
	}
	if o.stamp != v.stamp {
		_ = o.Close()
		return nil, errChanged
	}
	return o.File, nil
}

// sendPart sends a part of a file. It sends the last bytes of the last part after a check of the
// file.
func (h *Handler) sendPart(w http.ResponseWriter, v *variant, f *os.File, p byterange.Part, last bool) error {
	if _, err := io.WriteString(w, p.Before); err != nil {
		return err
	}
	held := int64(0)
	if last {
		held = min(heldBack, p.Length)
	}
	if n := p.Length - held; n > 0 {
		if _, err := f.Seek(p.From, io.SeekStart); err != nil {
			return err
		}
		if err := h.copyFile(w, f, n); err != nil {
			return err
		}
	}
	if held == 0 {
		return nil
	}
	end := make([]byte, held)
	if _, err := f.ReadAt(end, p.End()-held); err != nil {
		return err
	}
	if now, err := stampOf(f); err != nil || !now.sameBytes(v.stamp) {
		return errors.Join(errChanged, err)
	}
	_, err := w.Write(append(end, p.After...))
	return err
}

// copyFile copies n bytes from a descriptor's offset. It flushes the head first if w can read from
// a file itself: then ReadFrom has no first bytes to inspect.
func (h *Handler) copyFile(w http.ResponseWriter, f *os.File, n int64) error {
	if _, ok := w.(io.ReaderFrom); ok {
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		_, err := io.CopyN(w, f, n)
		return err
	}
	buffer, ok := h.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
		*buffer = make([]byte, copySize)
	}
	defer h.buffers.Put(buffer)
	copied, err := io.CopyBuffer(w, &io.LimitedReader{R: f, N: n}, *buffer)
	if err == nil && copied < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
