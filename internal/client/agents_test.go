package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// recordingConn is a scripted connection that records what is written.
type recordingConn struct {
	scriptedConn
	written strings.Builder
}

func (c *recordingConn) Write(p []byte) (int, error) { return c.written.Write(p) }

// A proxy's client sends each User-Agent, as it sends other fields. Otherwise a server would
// receive a request other than the one that caches use.
func TestVerbatimClientSendsEveryUserAgent(t *testing.T) {
	for verbatim, want := range map[bool]string{true: "User-Agent: a\r\nUser-Agent: b\r\n",
		false: "User-Agent: a\r\n"} {
		s := &recordingConn{scriptedConn: scriptedConn{text: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			piece: 1 << 20}}
		config := dialing(s)
		config.Verbatim = verbatim
		c := New(config)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", nil)
		testkit.Must(t, err)
		r.Header["User-Agent"] = []string{"a", "", "b"}
		resp, err := c.RoundTrip(r)
		testkit.Must(t, err)
		resp.Body.Close()
		if got := s.written.String(); !strings.Contains(got, want) ||
			strings.Count(got, "User-Agent") != strings.Count(want, "User-Agent") {
			t.Errorf("verbatim %v: sent %q, want %q", verbatim, got, want)
		}
	}
}
