package files

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/tarehq/tare/front/internal/byterange"
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
	o := outcome{status: http.StatusOK}
	if len(r.Header) > 0 && byterange.MaySelect(r.Header) {
		o = h.plan.judge(r, v)
	}
	body := r.Method != http.MethodHead && (o.status == http.StatusOK || o.status == http.StatusPartialContent)
	if body && v.content == nil && v.size > 0 {
		f, err := h.borrow(v)
		if err != nil {
			return 0, false
		}
		h.sendFile(w, v, o, f)
		return 0, true
	}
	header := w.Header()
	if returnsUnmet && o.unmet() {
		o.setUnmet(header, v)
		return o.status, true
	}
	v.set(header)
	parts := o.set(header, v)
	if o.status != http.StatusOK { // otherwise the first Write implies it
		w.WriteHeader(o.status)
	}
	switch {
	case !body || v.size == 0:
	case parts == nil:
		_, _ = w.Write(v.content)
	default:
		for _, p := range parts {
			_, _ = io.WriteString(w, p.before)
			_, _ = w.Write(v.content[p.From:p.End()])
		}
		_, _ = io.WriteString(w, parts[0].closing)
	}
	return 0, true
}

// part is a range with the delimiters around it, if there are several.
type part struct {
	byterange.Range
	before, closing string // closing ends the last part; the first one contains it
}

// set changes the fields of a 200 into those of another status. For a 206 it returns the parts.
func (o outcome) set(header http.Header, v *variant) []part {
	switch o.status {
	case http.StatusPartialContent:
		return o.setParts(header, v)
	case http.StatusNotModified: // RFC 9110, 15.4.5
		for _, name := range [...]string{"Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Type"} {
			delete(header, name)
		}
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		for _, name := range [...]string{"Cache-Control", "Content-Encoding", "Content-Type", "Etag", "Last-Modified"} {
			delete(header, name)
		}
		header["Content-Length"] = []string{"0"}
		o.setUnmet(header, v)
	}
	return nil
}

// unmet reports whether a precondition failed, or a range cannot be satisfied.
func (o outcome) unmet() bool {
	return o.status == http.StatusPreconditionFailed || o.status == http.StatusRequestedRangeNotSatisfiable
}

// setUnmet sets the fields of a 412 or 416.
func (o outcome) setUnmet(header http.Header, v *variant) {
	if o.status == http.StatusRequestedRangeNotSatisfiable {
		header["Content-Range"] = []string{"bytes */" + strconv.FormatInt(v.size, 10)}
	}
}

func (o outcome) setParts(header http.Header, v *variant) []part {
	if len(o.ranges) == 1 {
		r := o.ranges[0]
		header["Content-Range"] = []string{r.ContentRange(v.size)}
		header["Content-Length"] = []string{strconv.FormatInt(r.Length, 10)}
		return []part{{Range: r}}
	}
	boundary, contentType := rand.Text(), header.Get("Content-Type") // the caller may have set it
	parts, length := make([]part, len(o.ranges)), int64(0)
	for i, r := range o.ranges {
		before := "--" + boundary + "\r\n"
		if i > 0 {
			before = "\r\n" + before
		}
		if contentType != "" {
			before += "Content-Type: " + contentType + "\r\n"
		}
		parts[i] = part{Range: r, before: before + "Content-Range: " + r.ContentRange(v.size) + "\r\n\r\n"}
		length += int64(len(parts[i].before)) + r.Length
	}
	parts[0].closing = "\r\n--" + boundary + "--\r\n"
	header["Content-Type"] = []string{"multipart/byteranges; boundary=" + boundary}
	header["Content-Length"] = []string{strconv.FormatInt(length+int64(len(parts[0].closing)), 10)}
	return parts
}

// sendFile sends a file that is not in memory. If the file changes, ends early or cannot be read,
// sendFile closes the connection, because the length has already been sent. It does so by a panic
// that servers do not log.
func (h *Handler) sendFile(w http.ResponseWriter, v *variant, o outcome, f *os.File) {
	sent := false
	defer func() {
		if sent {
			h.giveBack(v, f)
		} else {
			_ = f.Close()
		}
	}()
	header := w.Header()
	v.set(header)
	parts := o.set(header, v)
	if parts == nil {
		parts = []part{{Range: byterange.Range{Length: v.size}}}
	}
	w.WriteHeader(o.status)
	for i, p := range parts {
		err := h.sendPart(w, v, f, p, i == len(parts)-1)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	_, err := io.WriteString(w, parts[0].closing)
	sent = err == nil
}

// sendPart sends a part of a file. It sends the last bytes of the last part after a check of the
// file.
func (h *Handler) sendPart(w http.ResponseWriter, v *variant, f *os.File, p part, last bool) error {
	if _, err := io.WriteString(w, p.before); err != nil {
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
	_, err := w.Write(end)
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
