package front

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/tarehq/tare/front/conf"
)

const (
	// maxCompressing bounds the responses that are compressed at the same time, because each takes
	// up to a megabyte. More are sent uncompressed.
	maxCompressing = 512

	defaultGzipLevel  = 1
	defaultGzipLength = 20
)

// gzipFilter is a Gzip, compiled.
type gzipFilter struct {
	minLength int64
	types     bodyTypes
	vary      bool
	proxied   gzipProxied
	http10    bool
	disable   []*pattern
	pool      *gzipPool
}

// gzipPool is a free list of compressors of one level.
type gzipPool struct {
	level  int
	active *atomic.Int64 // compressors in use, of all levels
	idle   sync.Pool     // of *gzip.Writer
}

// gzip compiles a Gzip.
func (c *compiler) gzip(g *conf.Gzip) (*gzipFilter, error) {
	if g == nil {
		return nil, nil
	}
	out := &gzipFilter{minLength: g.MinLength, vary: g.Vary, http10: g.HTTP10, types: newBodyTypes(g.Types)}
	if out.minLength == 0 {
		out.minLength = defaultGzipLength
	}
	for _, word := range g.Proxied {
		bit, ok := proxiedWords()[word]
		if !ok {
			return nil, fmt.Errorf("gzip_proxied: unknown word %q", word)
		}
		out.proxied |= bit
	}
	for _, d := range g.Disable {
		if d == "msie6" {
			d = `MSIE [4-6]\.` // nginx exempts user agents with SV1 (Windows XP SP2)
		}
		p, err := c.parsePattern(d, true)
		if err != nil {
			return nil, fmt.Errorf("gzip_disable: %w", err)
		}
		out.disable = append(out.disable, p)
	}
	level := g.Level
	if level == 0 {
		level = defaultGzipLevel
	}
	if level < gzip.BestSpeed || level > gzip.BestCompression {
		return nil, fmt.Errorf("gzip_comp_level: invalid level %d: want 1 to 9", level)
	}
	out.pool = c.gzipPool(level)
	return out, nil
}

// gzipPool returns the pool of a level, which locations share.
func (c *compiler) gzipPool(level int) *gzipPool {
	if c.gzips == nil {
		c.gzips = make(map[int]*gzipPool)
	}
	if c.gzips[level] == nil {
		c.gzips[level] = &gzipPool{level: level, active: &c.state.compressing}
	}
	return c.gzips[level]
}

// acquire returns a compressor, or nil if too many are in use.
func (s *gzipPool) acquire(to io.Writer) *gzip.Writer {
	if s.active.Add(1) > maxCompressing {
		s.active.Add(-1)
		return nil
	}
	if w, ok := s.idle.Get().(*gzip.Writer); ok {
		w.Reset(to)
		return w
	}
	w, _ := gzip.NewWriterLevel(to, s.level) // the level is valid
	return w
}

// release returns a compressor to the pool.
func (s *gzipPool) release(w *gzip.Writer) {
	w.Reset(io.Discard) // drops the reference to the response
	s.idle.Put(w)
	s.active.Add(-1)
}

// mayCompress reports whether a response may be compressed, as far as its header decides, apart
// from its type and unknown length.
func (g *gzipFilter) mayCompress(w *writer) bool {
	header := w.Header()
	switch w.status {
	case http.StatusOK, http.StatusForbidden, http.StatusNotFound:
	default:
		return false
	}
	if header.Get("Content-Encoding") != "" || !g.vary && !g.isAllowed(w.x, w.x.r, header) {
		return false
	}
	length, known := declaredLength(header)
	return !known || length >= g.minLength
}

// neededBytes returns how much of the body is needed to decide whether to compress.
func (g *gzipFilter) neededBytes(header http.Header) int64 {
	contentType, typed := header["Content-Type"]
	length, known := declaredLength(header)
	switch {
	case typed && (known || !g.types.contains(firstValue(contentType))):
		return 0
	case known:
		return min(sniffLen, length)
	case typed:
		return min(g.minLength, maxHeldBytes)
	}
	return max(sniffLen, min(g.minLength, maxHeldBytes))
}

// start changes the header and starts compressing, if the response is to be compressed.
func (g *gzipFilter) start(w *writer, contentType string) {
	header := w.Header()
	if !g.types.contains(contentType) {
		return
	}
	if g.vary {
		addVary(header)
	}
	if !g.isAllowed(w.x, w.x.r, header) {
		return
	}
	z := &gzipWriter{pool: g.pool}
	if z.headOnly = w.x.r.Method == http.MethodHead; !z.headOnly {
		if z.gz = g.pool.acquire(gzipOutput{w}); z.gz == nil {
			return
		}
	}
	w.gzip = z
	header["Content-Encoding"] = []string{"gzip"}
	delete(header, "Content-Length")
	delete(header, "Accept-Ranges")
	weakenEtag(header)
}

// addVary adds Accept-Encoding to Vary.
func addVary(header http.Header) {
	if vary := header["Vary"]; !hasToken(vary, "Accept-Encoding") && !hasToken(vary, "*") {
		header["Vary"] = append(vary[:len(vary):len(vary)], "Accept-Encoding")
	}
}

// gzipOutput is where compressed bytes go.
type gzipOutput struct{ w *writer }

func (t gzipOutput) Write(p []byte) (int, error) { return t.w.sendBody(p) }

// gzipWriter compresses the body of a response.
type gzipWriter struct {
	gz           *gzip.Writer
	pool         *gzipPool
	uncompressed int64 // bytes before compression
	headOnly     bool  // a response to HEAD: only its header is as if it were compressed
}

// Write compresses a part of the body.
func (z *gzipWriter) Write(p []byte) (int, error) {
	if z.headOnly {
		return len(p), nil
	}
	if z.gz == nil {
		return 0, http.ErrBodyNotAllowed // the response has ended
	}
	z.uncompressed += int64(len(p))
	return z.gz.Write(p)
}

// gzipRatio is $gzip_ratio: uncompressed to sent bytes, with two decimals; empty without
// compression.
func gzipRatio(x *exchange) string {
	if x.out == nil || x.out.gzip == nil || x.out.sent == 0 {
		return ""
	}
	hundredths := (x.out.gzip.uncompressed*1000/x.out.sent + 5) / 10
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}

func (z *gzipWriter) flush() error {
	if z.gz == nil {
		return nil
	}
	return z.gz.Flush()
}

// close ends the body.
func (z *gzipWriter) close() error {
	if z.gz == nil {
		return nil
	}
	err := z.gz.Close()
	z.release()
	return err
}

// release ends compressing without the rest of the output.
func (z *gzipWriter) release() {
	if z.gz != nil {
		z.pool.release(z.gz)
		z.gz = nil
	}
}

// gzipProxied are the conditions of gzip_proxied.
type gzipProxied uint16

const (
	proxiedExpired gzipProxied = 1 << iota
	proxiedNoCache
	proxiedNoStore
	proxiedPrivate
	proxiedNoLastModified
	proxiedNoETag
	proxiedAuth
	proxiedAny
)

func proxiedWords() map[string]gzipProxied {
	return map[string]gzipProxied{
		"off": 0, "expired": proxiedExpired, "no-cache": proxiedNoCache, "no-store": proxiedNoStore,
		"private":          proxiedPrivate,
		"no_last_modified": proxiedNoLastModified, "no_etag": proxiedNoETag, "auth": proxiedAuth, "any": proxiedAny,
	}
}

// isAllowed reports whether a client accepts gzip, and may get it.
func (g *gzipFilter) isAllowed(x *exchange, r *http.Request, header http.Header) bool {
	if !acceptsGzip(r.Header["Accept-Encoding"]) || !g.http10 && !r.ProtoAtLeast(1, 1) {
		return false
	}
	if len(r.Header["Via"]) > 0 && !g.proxied.allow(r, header) {
		return false
	}
	agent := r.UserAgent()
	return agent == "" || !anyMatches(x, g.disable, agent) && !x.regexTimedOut
}

// allow reports whether a response to a proxy may be compressed.
func (p gzipProxied) allow(r *http.Request, header http.Header) bool {
	switch {
	case p == 0:
		return false
	case p&proxiedAny != 0, p&proxiedAuth != 0 && r.Header.Get("Authorization") != "":
		return true
	}
	if at := header.Get("Expires"); at != "" {
		expires, err := http.ParseTime(at)
		now := time.Now()
		if date, dateErr := http.ParseTime(header.Get("Date")); dateErr == nil {
			now = date
		}
		return p&proxiedExpired != 0 && err == nil && expires.Unix() < now.Unix()
	}
	if control := header["Cache-Control"]; len(control) > 0 {
		all := strings.ToLower(strings.Join(control, ","))
		return p&proxiedNoCache != 0 && strings.Contains(all, "no-cache") ||
			p&proxiedNoStore != 0 && strings.Contains(all, "no-store") ||
			p&proxiedPrivate != 0 && strings.Contains(all, "private")
	}
	if p&proxiedNoLastModified != 0 && header.Get("Last-Modified") != "" {
		return false
	}
	return p&proxiedNoETag == 0 || header.Get("Etag") == ""
}

// acceptsGzip parses Accept-Encoding as nginx does: gzip must be named, with a weight other than 0.
func acceptsGzip(values []string) bool {
	for _, value := range values {
		for value != "" {
			var element string
			element, value, _ = strings.Cut(value, ",")
			name, parameter, weighed := strings.Cut(element, ";")
			if !strings.EqualFold(strings.Trim(name, " \t"), "gzip") {
				continue
			}
			parameter = strings.Trim(parameter, " \t")
			if !weighed || parameter == "" {
				return true
			}
			q, ok := strings.CutPrefix(strings.ToLower(parameter), "q=")
			return ok && positiveWeight(q)
		}
	}
	return false
}

// positiveWeight reports whether a weight (RFC 9110, 12.4.2) is valid and not zero.
func positiveWeight(q string) bool {
	if q == "" || len(q) > len("0.000") || q[0] != '0' && q[0] != '1' || len(q) > 1 && q[1] != '.' {
		return false
	}
	digits := strings.Trim(q[min(len(q), 2):], "0")
	if q[0] == '1' {
		return digits == ""
	}
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}
