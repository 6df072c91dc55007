package engine_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A handler that responds before it has read the body, which is then drained, and reads on,
// receives an error and not the end of the body, as with net/http.
func TestDrainedBodyDoesNotEndSilently(t *testing.T) {
	const size = 20_000
	content := strings.Repeat("x", size)
	handlers := map[string]http.HandlerFunc{
		"flush": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		},
		"read some, flush": func(w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 100))
			w.(http.Flusher).Flush()
			n, err := r.Body.Read(make([]byte, 1))
			fmt.Fprint(w, n, err)
		},
		"large write": func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, size))
			_, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, err)
		},
		"echo": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, make([]byte, 1000))
			fmt.Fprint(w, err)
		},
		"full duplex": func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		},
	}
	for _, mode := range []string{"tcp", "net.Conn", "tls", "ServeTLS"} {
		for _, name := range slices.Sorted(maps.Keys(handlers)) {
			t.Run(mode+"/"+name, func(t *testing.T) {
				for _, coding := range []string{"length", "chunked"} {
					var got [2]string
					for i, maker := range []string{"net/http", "tare"} {
						s := siteOf(t, maker, mode, handle(handlers[name])())
						body := io.Reader(strings.NewReader(content))
						if coding == "chunked" {
							body = struct{ io.Reader }{body}
						}
						resp, err := s.client.Post("http://host/", "", body)
						if err != nil {
							t.Fatal(err)
						}
						b, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						got[i] = fmt.Sprintf("%v …%q", err, b[max(0, len(b)-40):])
					}
					if got[0] != got[1] {
						t.Errorf("%s: %s, with net/http %s", coding, got[1], got[0])
					}
				}
			})
		}
	}
}
