package load

import (
	"bytes"
	"strings"
	"testing"
)

// The unsent rest of a body is not sent on the next connection.
func TestHTTP2ReaderDropsUnsentBodyOnReset(t *testing.T) {
	q := &request{parsedURL: parsedURL{host: "a", target: "/"}, method: "POST",
		body: strings.Repeat("b", 2*initialWindowSize)}
	text := http2Protocol{}.render(nil, q, address{}, false)
	r := http2Protocol{}.newReaders(1, readerConfig{tally: new(tally), expected: new(expectation),
		maxInFlight: 2})[0].(*http2Reader)
	for _, slot := range []int{0, 1} {
		out, _ := r.appendRequest(nil, text, false, slot)
		if n := bytes.Count(out, []byte("b")); slot == 0 && (n < initialWindowSize || n >= 2*initialWindowSize) {
			t.Fatalf("%d bytes of the body were sent at once", n)
		}
	}
	r.reset()
	if out, _ := r.appendRequest(nil, http2Protocol{}.render(nil, &request{parsedURL: q.parsedURL, method: "GET"},
		address{}, false), false, 0); len(out) == 0 {
		t.Error("no request is sent on the new connection")
	}
	if out := r.appendReplies(nil); len(out) > 0 {
		t.Errorf("%d bytes are sent on the new connection without a request", len(out))
	}
}
