package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/internal/connection"
)

// A sliced response consists of parts of equal size. Each is an upstream request of its own, and
// may be cached on its own:
//
//	$slice_range is evaluated      the request is sliced; the client's range selects the first slice
//	the response is not 206        it is the client's response, whole
//	the response is that slice     the client's response begins; slicedBody fetches the next slices
//	a later response is another    the response is cut off
//
// Slices are fetched one after another, by the same code as the first, when the client needs them.

// SliceModule fetches responses in slices: slice and $slice_range.
func SliceModule() core.Module {
	return core.Module{Variables: func(core.Slot) map[string]core.KnownVariable {
		return map[string]core.KnownVariable{"slice_range": {Get: sliceRange}}
	}}
}

// sliceState makes a request sliced.
type sliceState struct {
	size  int64
	start int64 // of the slice that $slice_range names
}

func sliceRange(x *core.Exchange) string {
	p := proxyOf(x)
	if p == nil || p.from.Slice == 0 || p.callsBound() || x.Parent != nil {
		return ""
	}
	state := ensureState(x)
	s, ok := state.slice.(*sliceState)
	if !ok {
		s = &sliceState{size: p.from.Slice}
		s.start = s.of(firstByte(x.Request.Header))
		state.slice = s
	}
	return fmt.Sprintf("bytes=%d-%d", s.start, s.start+s.size-1)
}

// of returns the start of the slice that contains a byte.
func (s *sliceState) of(offset int64) int64 { return offset - offset%s.size }

// firstByte returns the first byte that a request needs, as far as that is known. As in nginx it is
// 0 with If-Range and with several ranges.
func firstByte(header http.Header) int64 {
	const most = 1 << 62
	lines := header["Range"]
	if len(lines) != 1 || header["If-Range"] != nil || strings.Contains(lines[0], ",") {
		return 0
	}
	start, fromEnd, ok := rangeStart(lines[0])
	if !ok || fromEnd || start > most {
		return 0
	}
	return start
}

// check returns the length of the whole file if a response is the slice, else an error.
func (s *sliceState) check(status int, header http.Header) (total int64, err error) {
	if status != http.StatusPartialContent {
		return 0, fmt.Errorf("unexpected status %d in a slice", status)
	}
	text := header.Get("Content-Range")
	bounds, length, _ := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	from, to, _ := strings.Cut(bounds, "-")
	first, firstErr := strconv.ParseInt(from, 10, 64)
	last, lastErr := strconv.ParseInt(to, 10, 64)
	total, totalErr := strconv.ParseInt(length, 10, 64)
	if err := errors.Join(firstErr, lastErr, totalErr); err != nil || len(header["Content-Range"]) != 1 {
		return 0, fmt.Errorf("invalid Content-Range %q in a slice", text)
	}
	if total <= s.start || first != s.start || last+1 != min(s.start+s.size, total) {
		return 0, fmt.Errorf("unexpected Content-Range %q in the slice from %d", text, s.start)
	}
	if n := header.Get("Content-Length"); n != "" { // it is unknown in chunks
		if length, err := strconv.ParseInt(n, 10, 64); err != nil || length != last+1-first {
			return 0, fmt.Errorf("Content-Length %q does not fit Content-Range %q in a slice", n, text)
		}
	}
	return total, nil
}

// isPart returns what reports whether a response is the slice. A cache may call it later.
func (s *sliceState) isPart() func(*http.Response) bool {
	slice := *s
	return func(resp *http.Response) bool {
		_, err := slice.check(resp.StatusCode, resp.Header)
		return err == nil
	}
}

// fetchSlice fetches the slice at which the exchange is.
func (p *proxy) fetchSlice(x *core.Exchange, target destination) (*cache.Response, error) {
	from, err := p.cache.of(x)
	if err != nil {
		return nil, err
	}
	if from != nil {
		a, _, err := p.fetchCached(x, target, from)
		return a, err
	}
	resp, _, err := p.fetch(x, target)
	if err != nil {
		return nil, err
	}
	return cache.Pass(resp), nil
}

// respond sends the part of a file that the client requests. first is a slice of the file.
func (s *sliceState) respond(x *core.Exchange, p *proxy, target destination, first *cache.Response) core.Outcome {
	b := &slicedBody{x: x, state: s, proxy: p, target: target,
		etag: first.Header.Get("Etag"), modified: first.Header.Get("Last-Modified")}
	b.use(first)
	defer b.close()
	if out := p.redirectInternally(x, first.Status, first.Header); out != core.Proceed {
		return out
	}
	var err error
	if b.length, err = s.check(first.Status, first.Header); err != nil {
		x.Errorf(errorlog.LevelError, "upstream: %v", err)
		b.forget()
		return x.Fail(http.StatusBadGateway)
	}
	header := x.Response.Header()
	p.response.copyHeader(x, first.Status, header, first.Header)
	if first.Passed == nil {
		if !ignoresField(p.from.Hide, "Date") {
			header["Date"] = first.Header["Date"]
		}
		first.Mark(header)
	}
	delete(header, "Content-Range")
	r := x.WithConditions(x.Request, first.Header.Get("Content-Type"))
	return endSelected(x, cache.SendSelected(&x.Response, r, x.Loc.Selector().Single(), b.modified, b))
}

// slicedBody is the body of a sliced response. It implements io.ReadSeeker.
type slicedBody struct {
	x      *core.Exchange
	state  *sliceState
	proxy  *proxy
	target destination

	length, offset int64           // of the whole file, and of the next Read
	etag, modified string          // of the first slice
	current        *cache.Response // the open slice, or nil
	body           io.ReadSeeker   // of current
}

var _ connection.InputReporter = (*slicedBody)(nil)

// HasInput implements connection.InputReporter.
func (b *slicedBody) HasInput() bool { return b.isOpen() && cache.HasInput(b.rest()) }

// isOpen reports whether the open slice contains offset.
func (b *slicedBody) isOpen() bool { return b.current != nil && b.state.of(b.offset) == b.state.start }

// rest returns the body of the open slice from offset on.
func (b *slicedBody) rest() io.Reader {
	_, _ = b.body.Seek(b.offset-b.state.start, io.SeekStart) // Read returns an error
	return b.body
}

// Seek implements io.Seeker.
func (b *slicedBody) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.offset
	case io.SeekEnd:
		offset += b.length
	}
	b.offset = offset
	return offset, nil
}

// Read implements io.Reader.
func (b *slicedBody) Read(p []byte) (n int, err error) {
	if !b.isOpen() {
		b.close()
		b.state.start = b.state.of(b.offset)
		if err = b.open(); err != nil {
			return 0, err
		}
	}
	end := min(b.state.start+b.state.size, b.length)
	n, err = b.rest().Read(p[:min(int64(len(p)), end-b.offset)])
	b.offset += int64(n)
	if errors.Is(err, io.EOF) {
		if err = nil; b.offset < end { // a cache has stored it as if it were complete
			b.forget()
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// open fetches the current slice. It must be one of the same file.
func (b *slicedBody) open() error {
	state := stateOf(b.x)
	cacheState, attempts := state.cacheState, len(state.attempts)
	next, err := b.proxy.fetchSlice(b.x, b.target)
	state.cacheState, state.attempts = cacheState, state.attempts[:attempts] // those of the first slice, as in nginx
	if err != nil {
		return err
	}
	b.use(next)
	h := next.Header
	total, err := b.state.check(next.Status, h)
	switch {
	case err != nil:
	case b.proxy.response.mayRedirect && len(h["X-Accel-Redirect"]) > 0:
		err = errors.New("X-Accel-Redirect in a slice that is not the first")
	case total != b.length, b.etag != "" && h.Get("Etag") != b.etag,
		b.modified != "" && h["Last-Modified"] != nil && h.Get("Last-Modified") != b.modified:
		err = errors.New("the file has changed between slices")
	}
	if err != nil {
		b.forget()
		b.close()
	}
	return err
}

// forget removes the slice and the one of the client's range from the cache. They do not fit
// together, and later requests would fail in the same way until one of them expires.
func (b *slicedBody) forget() {
	x := b.x
	from, err := b.proxy.cache.of(x)
	if from == nil || err != nil {
		return
	}
	key := &b.proxy.cache.key
	from.cache.Purge(key.eval(x, b.proxy, b.target))
	slice := *b.state
	b.state.start = slice.of(firstByte(x.Request.Header))
	from.cache.Purge(key.eval(x, b.proxy, b.target))
	*b.state = slice
}

func (b *slicedBody) use(slice *cache.Response) { b.current, b.body = slice, slice.Body() }

func (b *slicedBody) close() {
	if b.current != nil {
		b.current.Close()
	}
	b.current = nil
}
