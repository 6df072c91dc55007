package load

import (
	"bytes"
	"strings"
	"testing"
)

// What a connection did not take of a body is not sent on the next one.
func TestHTTP2ReaderForgets(t *testing.T) {
	q := &request{place: place{host: "a", target: "/"}, method: "POST", body: strings.Repeat("b", 2*firstWindow)}
	text := overHTTP2{}.render(nil, q, address{}, false)
	r := overHTTP2{}.readers(1, shared{tally: new(tally), expected: new(expectation), depth: 2})[0].(*http2Reader)
	for _, slot := range []int{0, 1} {
		out, _ := r.ask(nil, text, false, slot)
		if n := bytes.Count(out, []byte("b")); slot == 0 && (n < firstWindow || n >= 2*firstWindow) {
			t.Fatalf("%d bytes of the body were sent at once", n)
		}
	}
	r.reset()
	if out, _ := r.ask(nil, overHTTP2{}.render(nil, &request{place: q.place, method: "GET"}, address{}, false), false, 0); len(out) == 0 {
		t.Error("nothing is asked on the new connection")
	}
	if out := r.reply(nil); len(out) > 0 {
		t.Errorf("%d bytes are sent on the new connection that nothing there asks for", len(out))
	}
}
