package cache

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// State is how an answer came about: nginx's $upstream_cache_status. It is empty if the cache has no part in it.
type State string

// States.
const (
	StateMiss        State = "MISS"        // nothing was there
	StateBypass      State = "BYPASS"      // what is there was not to be used
	StateExpired     State = "EXPIRED"     // it was stale
	StateStale       State = "STALE"       // it is stale, and does: the origin failed, or is asked meanwhile
	StateUpdating    State = "UPDATING"    // likewise, and somebody else asks the origin
	StateRevalidated State = "REVALIDATED" // it was stale, and the origin says that it holds
	StateHit         State = "HIT"
)

// An Answer is what a request gets. Whoever has one copies its header to the client's, as it sees fit, has Mark add to that, calls Send, and
// then Close.
type Response struct {
	// Status and Header are those of the answer. The header may be shared: it is only read.
	Status int
	Header http.Header
	State  State
	// Passed is the origin's answer if it is not kept. Its header is the caller's, and its Body is sent and closed instead of Send and
	// Close; Status and Header are the same.
	Passed *http.Response

	stored *stored
	leases *leases   // that the stored body is acquired from, or nil
	at     time.Time // it was found
	file   *os.File
	come   *growing // if it is not all there yet

	name   string // of the cache, if there shall be a Cache-Status
	status string // the rest of it
}

// Mark adds what the cache has to say to the header that goes to a client: Age, and Cache-Status if the Rules have it.
func (a *Response) Mark(header http.Header) {
	if a.stored != nil {
		if age := a.stored.age(a.at); a.come == nil || age >= time.Second {
			header["Age"] = []string{strconv.FormatInt(int64(age/time.Second), 10)}
		}
	}
	if a.name == "" {
		return
	}
	said := a.name + "; " + a.status
	if before := header["Cache-Status"]; len(before) > 0 { // RFC 9211, 2: the last one is nearest to the client
		said = strings.Join(before, ", ") + ", " + said
	}
	header["Cache-Status"] = []string{said}
}

// conditional reports whether a request may want less than the whole answer.
func conditional(h http.Header) bool {
	for _, name := range [...]string{"If-None-Match", "If-Modified-Since", "Range", "If-Match", "If-Unmodified-Since"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

// Send sends the answer's status and body, or as much of it as the request asks for. An error means that the answer is not complete:
// the connection must not be used any more.
func (a *Response) Send(w http.ResponseWriter, r *http.Request) error {
	if a.Status == http.StatusOK && len(r.Header) > 0 && conditional(r.Header) && a.sized() && a.settled() {
		return a.sendPart(w, r)
	}
	w.WriteHeader(a.Status)
	switch {
	case r.Method == http.MethodHead || a.Status == http.StatusNoContent:
		return nil
	case a.come != nil:
		_, err := a.come.WriteTo(w)
		return err
	case a.file != nil:
		return sendFile(w, a.file, a.stored.length)
	}
	_, err := w.Write(a.stored.body)
	return err
}

// sized reports whether the length of a response to HEAD is known.
func (a *Response) sized() bool { return !a.headOnly() || a.announced() >= 0 }

func (a *Response) headOnly() bool { return a.stored != nil && a.stored.headOnly() }

// announced is the length that a response to HEAD tells of, or -1.
func (a *Response) announced() int64 {
	n, err := strconv.ParseInt(a.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// settled reports whether the answer's length is known. If the origin did not say it waits for the end.
func (a *Response) settled() bool {
	if a.come == nil || a.come.f.length >= 0 {
		return true
	}
	return a.come.settle()
}

// sendPart answers conditions and ranges.
func (a *Response) sendPart(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	delete(header, "Content-Length")
	if header["Content-Type"] == nil {
		header["Content-Type"] = nil // it is not guessed
	}
	most := maxRanges
	if a.come != nil { // what is handed over goes by once
		most = 1
	}
	if ranges := r.Header["Range"]; len(ranges) > 0 && strings.Count(ranges[0], ",") >= most {
		r = r.WithContext(r.Context()) // a copy, whose header may change
		r.Header = r.Header.Clone()
		delete(r.Header, "Range")
	}
	body := &watched{ReadSeeker: a.seeker()}
	modified, _ := http.ParseTime(a.Header.Get("Last-Modified"))
	http.ServeContent(w, r, "", modified, body)
	return body.err
}

// seeker reads the body from anywhere.
func (a *Response) seeker() io.ReadSeeker {
	switch {
	case a.headOnly():
		return io.NewSectionReader(nothing{}, 0, a.announced()) // whose length is asked for
	case a.come != nil:
		return a.come
	case a.file != nil:
		at, _ := a.file.Seek(0, io.SeekCurrent)
		return io.NewSectionReader(a.file, at, a.stored.length)
	}
	return bytes.NewReader(a.stored.body)
}

// nothing is a body that is not read.
type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// watched remembers that a body could not be read. Nobody reads more than there should be: so its end is too early.
type watched struct {
	io.ReadSeeker
	err error
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		if err = io.ErrUnexpectedEOF; n > 0 {
			err = nil // what was read may have been all that was wanted
		}
	}
	if err != nil {
		b.err = err
	}
	return n, err
}

// sendFile sends a file's next bytes. What can read from a file itself is asked to, after the head has gone: it need not look at
// the first bytes then.
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

// Discard is Close for a response that is not sent, from wherever it is.
func (a *Response) Discard() {
	if a.Passed != nil {
		_ = a.Passed.Body.Close()
	}
	a.Close()
}

// Close ends the use of the answer.
func (a *Response) Close() {
	if a.file != nil {
		a.file.Close()
	}
	if a.come != nil {
		_ = a.come.Close()
	}
	if a.leases != nil {
		a.leases.release(a.stored.lease)
		a.leases = nil
	}
}
