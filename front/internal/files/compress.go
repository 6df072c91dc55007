package files

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressor compresses a few files at a time.
type compressor struct {
	turns chan struct{}
	gzips sync.Pool
	once  sync.Once
	zstd  *zstd.Encoder
}

func (c *compressor) compress(i int, plain []byte) ([]byte, error) {
	if i == zstandard {
		c.once.Do(func() {
			// the options are valid
			c.zstd, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(cap(c.turns)), zstd.WithWindowSize(maxCompress))
		})
		return c.zstd.EncodeAll(plain, make([]byte, 0, len(plain)/2)), nil
	}
	out := bytes.NewBuffer(make([]byte, 0, len(plain)/2))
	w, ok := c.gzips.Get().(*gzip.Writer)
	if !ok {
		w = gzip.NewWriter(out)
	} else {
		w.Reset(out)
	}
	defer func() {
		w.Reset(io.Discard) // releases the result
		c.gzips.Put(w)
	}()
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// make compresses a resource once; concurrent requests wait. It returns nil if too many other files
// are being compressed, or the file cannot be read.
func (h *Handler) make(res *resource, i int) *variant {
	res.making.Lock()
	defer res.making.Unlock()
	if v := res.encoded[i].Load(); v != nil {
		return v
	}
	select {
	case h.compressor.turns <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-h.compressor.turns }()
	plain, err := h.whole(res.identity)
	if err != nil {
		return nil
	}
	packed, err := h.compressor.compress(i, plain)
	if err != nil {
		return nil
	}
	v := &variant{stamp: res.identity.stamp}
	if len(packed) < len(plain)-len(plain)/16 { // a smaller gain is not worth the client's work
		id := res.identity
		v.content, v.size, v.contentType, v.modified = bytes.Clone(packed), int64(len(packed)), id.contentType,
			id.modified
		if !h.plan.config.NoEtag {
			v.etag = contentETag(packed)
		}
		v.describe(h.plan, h.plan.codings[i].token, true)
	}
	res.encoded[i].Store(v)
	h.cache.grow(res, int64(len(v.content)))
	return v
}

// whole returns the contents of a file, in memory or not.
func (h *Handler) whole(v *variant) ([]byte, error) {
	if v.content != nil || v.size == 0 {
		return v.content, nil
	}
	f, err := h.reopen(v)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, v.size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, v.size), b); err != nil {
		return nil, err
	}
	if now, err := stampOf(f); err != nil || !now.sameBytes(v.stamp) {
		return nil, errChanged
	}
	return b, nil
}

// compressible reports whether a file may become much shorter.
func compressible(contentType string, size int64) bool {
	if size < minCompress || size > maxCompress {
		return false
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") {
		return true
	}
	switch media {
	case "application/javascript", "application/json", "application/xml", "application/wasm",
		"application/manifest+json",
		"application/x-javascript", "application/rtf", "application/postscript", "application/sql",
		"font/ttf", "font/otf", "application/vnd.ms-fontobject", "image/bmp", "image/x-icon",
		"image/vnd.microsoft.icon":
		return true
	}
	return false
}
