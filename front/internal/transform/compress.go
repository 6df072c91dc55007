package transform

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/message"
)

const (
	defaultCompressLength = 20
	defaultGzipLevel      = 1
)

// CompressModule compresses and decompresses bodies: gzip, gunzip, brotli, zstd, and the directives
// with those prefixes.
func CompressModule() core.Module {
	return core.Module{
		Prepare: func(c *core.Compiler, at core.Slot) {
			all := c.State.Modules[at].(*compressing)
			c.Plan.Measures = append(c.Plan.Measures, func(e *exposition.Page) {
				e.Add("tare_compressing", exposition.Gauge, "Responses that are being compressed.",
					all.gzip.Load()+all.heavy.Load())
			})
		},
		Compile: compileCompressions,
		Variables: func(core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{
				"gzip_ratio":   {Get: compressionRatio("gzip")},
				"brotli_ratio": {Get: compressionRatio("br")},
				"zstd_ratio":   {Get: compressionRatio("zstd")},
			}
		},
		NewState: func() any { return new(compressing) },
	}
}

func compileCompressions(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	all := c.State.Modules[at].(*compressing)
	e.Bodies = compressions(c, s, all)
	gunzip := compileGzip(c, s.Gunzip, all)
	if gunzip != nil {
		e.Head = gunzip.startGunzip
	}
	if gunzip != nil || e.Bodies != nil {
		e.Rules = all
	}
	return e
}

type compression struct {
	minLength int64
	types     mediatype.Set
	vary      bool
	proxied   []string // words of gzip_proxied, without off
	http10    bool
	disable   []*core.Pattern
	pool      *encoderPool
}

func compileGzip(c *core.Compiler, g *conf.Gzip, in *compressing) *compression {
	if g == nil {
		return nil
	}
	out := newCompression(g.MinLength, g.Types, g.Vary)
	out.http10 = g.HTTP10
	for _, word := range g.Proxied {
		switch word {
		case "off":
		case "expired", "no-cache", "no-store", "private", "no_last_modified", "no_etag", "auth", "any":
			out.proxied = append(out.proxied, word)
		default:
			c.Failf("gzip_proxied: unknown word %q", word)
		}
	}
	for _, d := range g.Disable {
		if d == "msie6" {
			d = `MSIE [4-6]\.` // nginx exempts user agents with SV1 (Windows XP SP2)
		}
		out.disable = append(out.disable, c.ParsePattern("gzip_disable", d, true))
	}
	level := cmp.Or(g.Level, defaultGzipLevel)
	if level < gzip.BestSpeed || level > gzip.BestCompression {
		c.Failf("gzip_comp_level: invalid level %d: want 1 to 9", level)
	}
	out.pool = encoderPoolOf(c, in, "gzip", level)
	return out
}

// compressions compiles the compressions of a location, in the order of preference. As with nginx's
// modules, only gzip depends on the version of HTTP and on proxies.
func compressions(c *core.Compiler, s *conf.Settings, in *compressing) (all []core.BodyFilter) {
	for _, of := range []struct {
		coding             string
		from               *conf.Compression
		least, most, usual int
	}{
		{"br", s.Brotli, 0, brotli.BestCompression, 6}, {"zstd", s.Zstd, 1, 22, 1},
	} {
		if of.from == nil {
			continue
		}
		level := of.usual
		if of.from.Level != nil {
			level = *of.from.Level
		}
		if level < of.least || level > of.most {
			c.Failf("%s: invalid level %d: want %d to %d", of.coding, level, of.least, of.most)
		}
		out := newCompression(of.from.MinLength, of.from.Types, of.from.Vary)
		out.http10, out.proxied, out.pool = true, []string{"any"}, encoderPoolOf(c, in, of.coding, level)
		all = append(all, out)
	}
	if g := compileGzip(c, s.Gzip, in); g != nil {
		all = append(all, g)
	}
	return all
}

func newCompression(minLength int64, types []string, vary bool) *compression {
	return &compression{minLength: cmp.Or(minLength, defaultCompressLength), types: mediatype.NewSet(types),
		vary: vary}
}

// MayApply implements BodyFilter.
func (g *compression) MayApply(w *core.Writer) (need int64, ok bool) {
	header := w.Header()
	switch w.Status {
	case http.StatusOK, http.StatusForbidden, http.StatusNotFound:
	case http.StatusPartialContent:
		return 0, g.partVaries(header)
	default:
		return 0, false
	}
	length, known := message.DeclaredLength(header)
	if header.Get("Content-Encoding") != "" || !g.vary && !g.isAllowed(w.X, w.X.Request, header) ||
		known && length < g.minLength {
		return 0, false
	}
	contentType, typed := header["Content-Type"]
	switch {
	case typed && (known || !g.types.Contains(message.FirstValue(contentType))):
		return 0, true
	case known:
		return min(core.SniffLen, length), true
	case typed:
		return min(g.minLength, core.MaxHeldBytes), true
	}
	return max(core.SniffLen, min(g.minLength, core.MaxHeldBytes)), true
}

// partVaries reports whether a part of a response, which is not compressed, has the Vary of the
// whole (RFC 9110, 15.3.7). Several parts do: the type of the whole is not in their header.
func (g *compression) partVaries(header http.Header) bool {
	contentType := header.Get("Content-Type")
	_, text, _ := strings.Cut(header.Get("Content-Range"), "/")
	whole, err := grammar.ParseNumber(text)
	return g.vary && header.Get("Content-Encoding") == "" &&
		(strings.HasPrefix(contentType, "multipart/byteranges") ||
			err == nil && whole >= g.minLength && g.types.Contains(contentType))
}

// Start implements BodyFilter. The first coding that applies is used.
func (g *compression) Start(w *core.Writer, contentType string, length int64) {
	header := w.Header()
	if w.Status == http.StatusPartialContent {
		message.AddVary(header)
		return
	}
	if w.Stages[core.CompressStage] != nil || length != core.UnknownLength && length < g.minLength ||
		!g.types.Contains(contentType) {
		return
	}
	if g.vary {
		message.AddVary(header)
	}
	if !g.isAllowed(w.X, w.X.Request, header) {
		return
	}
	z := &compressWriter{pool: g.pool}
	if z.headOnly = w.X.Request.Method == http.MethodHead; !z.headOnly {
		if z.encoder = g.pool.acquire(compressedOutput{w}); z.encoder == nil {
			return
		}
	}
	w.Stages[core.CompressStage] = z
	header["Content-Encoding"] = []string{g.pool.coding}
	message.ReplaceBody(header)
}

type compressedOutput struct{ w *core.Writer }

func (t compressedOutput) Write(p []byte) (int, error) { return t.w.SendBody(p) }

type compressWriter struct {
	encoder      encoder
	pool         *encoderPool
	uncompressed int64 // bytes before compression
	headOnly     bool  // a response to HEAD: only its header is as if it were compressed
}

// Write compresses a part of the body.
func (z *compressWriter) Write(p []byte) (int, error) {
	if z.headOnly {
		return len(p), nil
	}
	if z.encoder == nil {
		return 0, http.ErrBodyNotAllowed // the response has ended
	}
	z.uncompressed += int64(len(p))
	return z.encoder.Write(p)
}

// compressionRatio returns $gzip_ratio and its like: uncompressed to sent bytes, with two decimals;
// empty without compression by the coding.
func compressionRatio(coding string) core.Variable {
	return func(x *core.Exchange) string {
		z, ok := x.Response.Stages[core.CompressStage].(*compressWriter)
		if !ok || x.Response.Sent == 0 || z.pool.coding != coding {
			return ""
		}
		hundredths := (z.uncompressed*1000/x.Response.Sent + 5) / 10
		return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
	}
}

// Flush implements stage.
func (z *compressWriter) Flush() error {
	if z.encoder == nil {
		return nil
	}
	return z.encoder.Flush()
}

// Close implements stage.
func (z *compressWriter) Close() error {
	if z.encoder == nil {
		return nil
	}
	err := z.encoder.Close()
	z.Release()
	return err
}

// Release ends compressing without the rest of the output.
func (z *compressWriter) Release() {
	if z.encoder != nil {
		z.pool.release(z.encoder)
		z.encoder = nil
	}
}

// isAllowed reports whether a client accepts the coding, and may get it.
func (g *compression) isAllowed(x *core.Exchange, r *http.Request, header http.Header) bool {
	if !message.AcceptsCoding(r.Header["Accept-Encoding"], g.pool.coding) || !g.http10 && !r.ProtoAtLeast(1, 1) {
		return false
	}
	if len(r.Header["Via"]) > 0 && !allowsProxied(g.proxied, r, header) {
		return false
	}
	agent := r.UserAgent()
	return agent == "" || !core.AnyMatches(x, g.disable, agent) && !x.RegexTimedOut
}

// allowsProxied reports whether the words of gzip_proxied allow to compress a response to a proxy.
func allowsProxied(words []string, r *http.Request, header http.Header) bool {
	has := func(word string) bool { return slices.Contains(words, word) }
	switch {
	case words == nil:
		return false
	case has("any"), has("auth") && r.Header.Get("Authorization") != "":
		return true
	}
	if at := header.Get("Expires"); at != "" {
		expires, err := http.ParseTime(at)
		now := time.Now()
		if date, dateErr := http.ParseTime(header.Get("Date")); dateErr == nil {
			now = date
		}
		return has("expired") && err == nil && expires.Unix() < now.Unix()
	}
	if control := header["Cache-Control"]; len(control) > 0 {
		all := strings.ToLower(strings.Join(control, ","))
		return slices.ContainsFunc([]string{"no-cache", "no-store", "private"}, func(word string) bool {
			return has(word) && strings.Contains(all, word)
		})
	}
	if has("no_last_modified") && header.Get("Last-Modified") != "" {
		return false
	}
	return !has("no_etag") || header.Get("Etag") == ""
}
