package client

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// expand has the body decompressed if it is what only we have asked for.
func (x *slab) expand() {
	r := &x.response
	if !x.inflate || !x.encoded || r.Body == http.NoBody || r.StatusCode == http.StatusSwitchingProtocols || !strings.EqualFold(first(r.Header["Content-Encoding"]), "gzip") {
		return
	}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Content-Length")
	r.ContentLength = -1
	r.Uncompressed = true
	r.Body = &inflated{client: x.client, body: r.Body}
}

// inflated is a body that is decompressed while it is read.
type inflated struct {
	client *Client
	body   io.ReadCloser

	reading sync.Mutex
	z       *gzip.Reader // nil before the first Read, and after the end
	err     error
}

func (b *inflated) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if b.z == nil {
		z := b.client.inflater()
		if b.err = z.Reset(b.body); b.err != nil {
			if errors.Is(b.err, io.EOF) {
				b.err = io.ErrUnexpectedEOF // no byte at all is no gzip
			}
			return 0, b.err
		}
		b.z = z
	}
	if n, err = b.z.Read(p); err != nil {
		if b.err = err; err == io.EOF { //nolint:errorlint // gzip's own
			b.client.inflaters.Put(b.z)
		}
		b.z = nil
	}
	return n, err
}

// Close implements io.Closer.
func (b *inflated) Close() error { return b.body.Close() }
