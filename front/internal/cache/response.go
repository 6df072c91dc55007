package cache

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

// State is how a response came about, as nginx's $upstream_cache_status. It is empty if the cache
// played no part.
type State string

// The states of a response.
const (
	StateMiss    State = "MISS"    // nothing was stored
	StateBypass  State = "BYPASS"  // the cache was skipped
	StateExpired State = "EXPIRED" // the stored response was stale
	// the stored response is stale; the origin failed, or an update runs
	StateStale State = "STALE"
	// the stored response is stale, and another request updates it
	StateUpdating    State = "UPDATING"
	StateRevalidated State = "REVALIDATED" // the origin confirmed the stale response
	StateHit         State = "HIT"
)

// A Response is what a request receives. The caller copies its Header to the client's, calls Mark
// and Send, and then Close.
type Response struct {
	// Status and Header are those of the response. The header may be shared: callers must not
	// change it.
	Status int
	Header http.Header
	State  State
	// Passed is the origin's response if it is not stored. The caller owns its header, and sends its
	// Body instead of calling Send. Status and Header repeat its values.
	Passed *http.Response

	stored   *stored
	leases   *leases   // the lease of the stored body comes from here; nil without one
	at       time.Time // when it was found
	file     *os.File
	arriving *fillReader // set while the body still arrives
	age      [1]string   // the value of the field Age, for Mark
}

// Head returns the head of the Header; none if the response is not stored, or still arrives. Callers
// must not change it.
func (a *Response) Head() (h message.Head) {
	if a.stored != nil && a.arriving == nil {
		h = a.stored.head
	}
	return h
}

// Mark adds Age to the header for a client.
func (a *Response) Mark(header http.Header) {
	if a.stored == nil {
		return
	}
	if age := a.seconds(); a.arriving == nil || age > 0 {
		a.age[0] = strconv.FormatInt(age, 10)
		header["Age"] = a.age[:]
	}
}

// AppendAge is Mark for a Head: it appends the field to the text and to the fields.
func (a *Response) AppendAge(text []byte, fields []http1.Field) ([]byte, []http1.Field) {
	const name = "Age"
	at := len(text)
	text = strconv.AppendInt(append(text, name+": "...), a.seconds(), 10)
	return text, append(fields, http1.Field{Name: http1.SpanOf(at, at+len(name)),
		Value: http1.SpanOf(at+len(name+": "), len(text))})
}

// seconds returns the age.
func (a *Response) seconds() int64 { return int64(a.stored.age(a.at) / time.Second) }

// Send sends the status and the body, or the part of it that the request selects. An error other
// than Unmet means that the response is incomplete: the connection must be closed.
func (a *Response) Send(w http.ResponseWriter, r *http.Request, by byterange.Selector) error {
	if a.Status == http.StatusOK && len(r.Header) > 0 && byterange.MaySelect(r.Header) &&
		(!a.headOnly() || a.announced() >= 0) {
		if a.arriving != nil { // bytes that bypass the cache can be read only once
			by = by.Single()
		}
		return SendSelected(w, r, by, a.Header.Get("Last-Modified"), a.seeker())
	}
	w.WriteHeader(a.Status)
	return a.SendBody(w, r.Method)
}

// SendBody is Send for a caller that has sent the status, and for a request that selects no part.
func (a *Response) SendBody(w http.ResponseWriter, method string) error {
	switch {
	case method == http.MethodHead || a.Status == http.StatusNoContent:
		if a.arriving != nil && (a.headOnly() || a.Status == http.StatusNoContent) {
			_, _ = a.arriving.Read(nil) // returns once it is stored, which a client of a whole response expects
		}
		return nil
	case a.arriving != nil:
		return a.arriving.sendTo(w)
	case a.file != nil:
		return sendFile(w, a.file, a.stored.length)
	}
	_, err := w.Write(a.stored.body)
	return err
}

func (a *Response) headOnly() bool { return a.stored != nil && a.stored.headOnly() }

// announced returns the length that a response to HEAD announces, or -1.
func (a *Response) announced() int64 {
	n, err := strconv.ParseInt(a.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Unmet is the status, 412 or 416, of a request whose preconditions or ranges select nothing.
type Unmet int

// Error implements error.
func (u Unmet) Error() string { return http.StatusText(int(u)) }

// SendSelected sends what a request's conditions and ranges select of a response with status 200.
// The body can seek to its end; one that arrives is passed on when it pauses. An error means that
// the response is incomplete, or is Unmet if the request selects nothing: the caller then sends
// that status.
func SendSelected(w http.ResponseWriter, r *http.Request, by byterange.Selector, lastModified string,
	from io.ReadSeeker) error {
	header := w.Header()
	size, _ := from.Seek(0, io.SeekEnd)
	if size < 0 { // as in nginx a range of a response of unknown length is ignored
		by.MaxRanges = -1
	} else {
		header["Accept-Ranges"], header["Content-Length"] = []string{"bytes"}, []string{strconv.FormatInt(size, 10)}
	}
	modified, _ := http.ParseTime(lastModified)
	selection := by.Select(r.Header, header.Get("Etag"), modified, size)
	parts := selection.SetHeader(header)
	switch {
	case selection.IsUnmet():
		return Unmet(selection.Status)
	case selection.Status == http.StatusOK:
		parts = []byterange.Part{{Range: byterange.Range{Length: size}}}
	}
	w.WriteHeader(selection.Status)
	if r.Method == http.MethodHead {
		return nil
	}
	for _, p := range parts {
		_, _ = io.WriteString(w, p.Before)
		_, _ = from.Seek(p.From, io.SeekStart)
		if err := copyBody(w, from, p.Length); err != nil {
			return err
		}
		_, _ = io.WriteString(w, p.After)
	}
	return nil
}

// copyBody sends the next n bytes of a body, or all if n is negative. It does not use the writer's
// ReadFrom, within which nothing may be flushed.
func copyBody(w http.ResponseWriter, from io.Reader, n int64) (err error) {
	to, body := struct{ io.Writer }{w}, &servedBody{from, w, true}
	if n < 0 {
		_, err = io.Copy(to, body)
	} else if _, err = io.CopyN(to, body, n); err == io.EOF { //nolint:errorlint // CopyN returns it as it is
		err = io.ErrUnexpectedEOF
	}
	return err
}

// inputReporter is a body that arrives while it is read. HasInput reports whether a Read returns at
// once.
type inputReporter interface{ HasInput() bool }

// HasInput reports whether a Read of a body returns at once. Bodies in memory and in files never
// wait. Those of upstreams and of a cache can tell if they may.
func HasInput(from io.Reader) bool {
	r, ok := from.(inputReporter)
	return !ok || r.HasInput()
}

// Pass returns an origin's response that is not stored.
func Pass(resp *http.Response) *Response {
	return &Response{Status: resp.StatusCode, Header: resp.Header, Passed: resp}
}

// Body returns the body. That of Passed can be read forward only.
func (a *Response) Body() io.ReadSeeker {
	if a.Passed != nil {
		return Forward(a.Passed)
	}
	return a.seeker()
}

// seeker returns a reader of the body that can seek.
func (a *Response) seeker() io.ReadSeeker {
	switch {
	case a.headOnly():
		// its length is announced without a body
		return io.NewSectionReader(bytes.NewReader(nil), 0, a.announced())
	case a.arriving != nil:
		return a.arriving
	case a.file != nil:
		at, _ := a.file.Seek(0, io.SeekCurrent)
		return io.NewSectionReader(a.file, at, a.stored.length)
	}
	return bytes.NewReader(a.stored.body)
}

// servedBody is the body of a response that is being served. It flushes the response before a Read
// that waits.
type servedBody struct {
	io.Reader
	w       http.ResponseWriter
	flushes bool // else it does from the second Read on: the head is sent with the first bytes
}

func (b *servedBody) Read(p []byte) (int, error) {
	if b.flushes && !HasInput(b.Reader) {
		_ = http.NewResponseController(b.w).Flush() // without Flush the data is late, but correct
	}
	b.flushes = true
	return b.Reader.Read(p)
}

// sendFile sends the next n bytes of a file. It flushes the head first if w can read from a file
// itself: io.Copy then has no first bytes to inspect.
func sendFile(w http.ResponseWriter, f *os.File, n int64) error {
	if _, ok := w.(io.ReaderFrom); ok {
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
	}
	sent, err := io.Copy(w, &io.LimitedReader{R: f, N: n})
	if err == nil && sent < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Close releases the response.
func (a *Response) Close() {
	if a.Passed != nil {
		_ = a.Passed.Body.Close()
	}
	if a.file != nil {
		a.file.Close()
	}
	if a.arriving != nil {
		a.arriving.f.leave(abandonedFor) // there is no reader any more
	}
	if a.leases != nil {
		a.leases.release(a.stored.lease)
		a.leases = nil
	}
}
