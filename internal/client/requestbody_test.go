package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/wire/http1"
)

type counted struct {
	io.Reader
	closed int
}

func (c *counted) Close() error { c.closed++; return nil }

func TestBodyIsClosedOnce(t *testing.T) {
	c := &counted{Reader: strings.NewReader("hi")}
	b := newRequestBody(c)
	p := make([]byte, 5)
	if n, end, err := b.piece(p, 0); n != 2 || end || err != nil {
		t.Error(n, end, err)
	}
	if n, end, err := b.piece(p, 1); n != 0 || !end || err != nil {
		t.Error(n, end, err)
	}
	if _, _, err := b.piece(p, maxEmptyReads); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	b.Close()
	b.Close()
	if c.closed != 1 {
		t.Errorf("closed %d times", c.closed)
	}
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		b := requestBodyOf(&http.Request{Body: none})
		if b.Close(); b != nil {
			t.Error("no body is one")
		}
	}
}

// A cause of io.EOF, which readers take for the end of a body, is not returned.
func TestCauseIsNeverEOF(t *testing.T) {
	for cause, want := range map[error]error{nil: context.Canceled, io.EOF: context.Canceled,
		io.ErrShortWrite: io.ErrShortWrite} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := contextCause(ctx); !errors.Is(err, want) {
			t.Errorf("%v becomes %v", cause, err)
		}
	}
}

func TestHeaderFromFieldLines(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nx-b: 1\r\nSet-Cookie: a\r\nTransfer-Encoding: chunked\r\n" +
		"set-cookie: b\r\nX-B: 2\r\nDate: now\r\n\r\n"
	var head http1.Response
	if ok, err := head.Parse([]byte(text), http1.Limits{Bytes: 1000, Fields: 10}); !ok {
		t.Fatal(err)
	}
	for _, room := range []int{0, 4, 9} {
		whole := http1.TextIn(text)
		h := makeHeader(nil, head.Fields, &whole, make([]string, 0, room))
		h["Date"] = append(h["Date"], "then") // must not overwrite another field's value
		if got := fmt.Sprint(h); got != "map[Date:[now then] Set-Cookie:[a b] X-B:[1 2]]" {
			t.Error(got)
		}
	}
}
