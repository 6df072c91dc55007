package fastcgi

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// extras are the extras of a FastCGI request: its parameters, STDERR, and ABORT_REQUEST.
type extras struct {
	params string // the list of parameters
	// the list is long: parameters are cloned, so that a program that keeps one does not keep
	// all
	clonesParams bool

	// State of a departure watch, which must not use the conn.
	id       uint16
	reader   fcgi.Reader // reads what follows the body
	unparsed []byte      // an incomplete record that has arrived before
}

// StartWatch records where the body has ended. It reports whether an ABORT_REQUEST for the request
// has already arrived.
func (r *extras) StartWatch(c *exchange.Conn) (isAborted bool) {
	f := codecOf(c)
	r.id, r.reader = f.id, f.request.Records
	isAborted, rest := r.findAbort(c.Input())
	r.unparsed = bytes.Clone(rest)
	return isAborted
}

func codecOf(c *exchange.Conn) *codec { return c.Codec.(*codec) }

// HasAbort reports whether in, all that has arrived since StartWatch, contains the request's
// ABORT_REQUEST.
func (r *extras) HasAbort(in []byte) (isAborted bool) {
	ahead := *r
	isAborted, _ = ahead.findAbort(slices.Concat(r.unparsed, in))
	return isAborted
}

// findAbort searches b, which the reader continues with. rest is an incomplete record, or the
// header of a malformed one: it makes every later search fail, too.
func (r *extras) findAbort(b []byte) (isAborted bool, rest []byte) {
	for {
		p, n, err := r.reader.Next(b)
		b = b[n:]
		switch {
		case err != nil:
			return false, b[:min(len(b), fcgi.HeaderSize)]
		case p.Type == 0:
			return false, b
		case p.Type == fcgi.AbortRequest && p.ID == r.id:
			return true, nil
		}
	}
}

// contextKey is the key of a context value that is set if the request came by FastCGI.
type contextKey struct{}

func (r *extras) Value(key any) any {
	if key == (contextKey{}) {
		return r
	}
	return nil
}

// Params returns the parameters of a request that came by FastCGI, or nil.
func Params(ctx context.Context) iter.Seq2[string, string] {
	r, ok := ctx.Value(contextKey{}).(*extras)
	if !ok {
		return nil
	}
	return r.allParams
}

// allParams yields the parameters. They are well formed: sortParams has checked them.
func (r *extras) allParams(yield func(name, value string) bool) {
	list := []byte(r.params)
	for at := 0; at < len(list); {
		p, next, err := fcgi.NextPair(list, at)
		if err != nil {
			return
		}
		name, value := p.Name.Of(r.params), p.Value.Of(r.params)
		if r.clonesParams {
			name, value = strings.Clone(name), strings.Clone(value)
		}
		if !yield(name, value) {
			return
		}
		at = next
	}
}

func (r *extras) ErrorStream(w *exchange.Response) io.Writer { return stderr{w} }

// stderr is a response's error stream, which ends with its handler. It must not have the response's
// methods: io.WriteString and io.Copy would prefer those that write the body.
type stderr struct{ response *exchange.Response }

func (s stderr) Write(p []byte) (int, error) {
	w := s.response
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if err := w.CheckUsable(); err != nil {
		return 0, err
	}
	c := w.Conn
	f := codecOf(c)
	f.endRecord(c)
	c.Out = fcgi.AppendStream(c.Out, fcgi.Stderr, f.id, p)
	if len(c.Out) >= exchange.OutSize {
		if err := c.Flush(); err != nil {
			return 0, err
		}
	}
	return len(p), c.WriteErr
}
