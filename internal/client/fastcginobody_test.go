package client

import (
	"errors"
	"io"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// A response without a body that ends with a record that may not follow is an error of its body,
// and its connection is not kept.
func TestMalformedEndOfResponseWithoutBody(t *testing.T) {
	odd := string(wire.AppendStream(nil, 99, 1, []byte("odd")))
	for head, method := range map[string]string{"Content-Length: 5\n\n": "HEAD", "Status: 204\n\n": "GET",
		"Content-Length: 0\n\n": "POST"} {
		s := newSite(t, protocols()[1], "memory")
		s.serve(func(_ int, c speaker) {
			for _, _, ok := receive(c); ok; _, _, ok = receive(c) {
				_, _ = c.Write(append(wire.AppendStream(nil, wire.Stdout, 1, []byte(head)), odd...))
			}
		})
		resp, err := s.the().RoundTrip(s.request(method, nil))
		testkit.Must(t, err)
		b, err := io.ReadAll(resp.Body)
		if e, ok := errors.AsType[*Error](err); len(b) > 0 || !ok || e.Kind != Malformed {
			t.Errorf("%q: %q, %v", head, b, err)
		}
		resp.Body.Close()
		if n := s.the().Count(); n.Idle+n.Active > 0 {
			t.Errorf("%q: the connection is kept: %+v", head, n)
		}
	}
}
