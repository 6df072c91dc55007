package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare"
)

// If a request's ContentLength is not the length of its body, the request fails as in net/http.
// Where net/http fails while it sends the body, the server may have received a part: it must not
// take that for complete.
func TestTransportChecksContentLength(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %d %v", r.ContentLength, r.TransferEncoding, len(b), err)
	}))
	defer s.Close()
	theirs, ours := new(http.Transport), new(tare.Transport)
	defer theirs.CloseIdleConnections()
	defer ours.CloseIdleConnections()
	bodies := map[string]func() io.ReadCloser{
		"nil":    func() io.ReadCloser { return nil },
		"none":   func() io.ReadCloser { return http.NoBody },
		"empty":  func() io.ReadCloser { return io.NopCloser(strings.NewReader("")) },
		"five":   func() io.ReadCloser { return io.NopCloser(strings.NewReader("hello")) },
		"long":   func() io.ReadCloser { return io.NopCloser(bytes.NewReader(make([]byte, 100_000))) },
		"hidden": func() io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader("hello"))) },
	}
	for name, body := range bodies {
		for _, length := range []int64{-2, -1, 0, 1, 4, 5, 6, 99_999, 100_000, 100_001, 1 << 40} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD"} {
				for _, again := range []bool{false, true} {
					var got [2]string
					for i, rt := range []http.RoundTripper{theirs, ours} {
						r, _ := http.NewRequest(method, s.URL, nil)
						if r.Body, r.ContentLength = body(), length; again && r.Body != nil {
							r.GetBody = func() (io.ReadCloser, error) { return body(), nil }
						}
						resp, err := rt.RoundTrip(r)
						if err != nil {
							got[i] = "error"
							continue
						}
						b, _ := io.ReadAll(resp.Body)
						resp.Body.Close()
						if got[i] = string(b); strings.Contains(got[i], "unexpected EOF") {
							got[i] = "error"
						}
					}
					// net/http reads a byte first: see docs/transport.md
					sameButChunked := got[0] != "error" && got[1] != "error" && length <= 0
					// net/http finds out after it has sent the body
					tooLong := got[1] == "error" && length > 0 && (name == "long" || name == "five" || name == "hidden")
					if got[0] != got[1] && !sameButChunked && !tooLong {
						t.Errorf("%s %s of %d, GetBody %v: %q, net/http %q", method, name, length, again, got[1],
							got[0])
					}
				}
			}
		}
	}
}
