package engine_test

import (
	"io"
	"net/http"
	"testing"
)

// A client on a shard that sends nothing but KeyUpdates loses its connection. Its tls.Conn would
// read them as long as they arrive, and hold up the loop.
func TestUselessTLSMessagesEndTheConnection(t *testing.T) {
	const updates = 20_000 // 540 KB
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		c := newUpdatingClient(s.T, s.below())
		var out []byte
		for range updates {
			out = c.appendUpdate(out, false)
		}
		out = c.appendRecord(out, applicationData, get)
		_, _ = c.below.Write(out) // fails if the server has already closed
		if got, err := io.ReadAll(c.Conn); len(got) > 0 {
			s.Errorf("got %q, %v", got, err)
		}
	}, "ServeTLS")
}
