package client

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// decompress replaces a body that is compressed by gzip by a decompressed one.
func (x *slab) decompress() {
	r := &x.response
	if r.Body == http.NoBody || !strings.EqualFold(firstValue(r.Header["Content-Encoding"]), "gzip") {
		return
	}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Content-Length")
	r.ContentLength = -1
	r.Uncompressed = true
	r.Body = &gzipBody{client: x.client, body: r.Body}
}

// gzipBody decompresses a body while it is read.
type gzipBody struct {
	client *Client
	body   io.ReadCloser

	closed  atomic.Bool
	reading sync.Mutex
	reader  *gzip.Reader // nil before the first Read, and after the end
	err     error
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.closed.Load() {
		return 0, ErrClosedBody
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.reader == nil {
		z, _ := b.client.gzipReaders.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		if b.err = z.Reset(b.body); b.err != nil {
			return 0, b.err
		}
		b.reader = z
	}
	if n, err = b.reader.Read(p); err != nil {
		if b.err = err; err == io.EOF { //nolint:errorlint // gzip.Reader does not wrap it
			b.client.gzipReaders.Put(b.reader)
		}
		b.reader = nil
	}
	return n, err
}

// Close implements io.Closer.
func (b *gzipBody) Close() error {
	b.closed.Store(true)
	return b.body.Close()
}
