package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// A client may leave as soon as it has sent a request, because it needs no response. The handler is
// called and can read the body, with tare as with net/http. It also can if the client resets the
// stream while the handler runs.
func TestHTTP2LastRequestIsServed(t *testing.T) {
	for _, maker := range []string{"net/http", "tare", "on loop"} {
		for mode := range http2Modes {
			t.Run(maker+" "+mode, func(t *testing.T) {
				t.Parallel()
				entered, read := make(chan bool, 1), make(chan string, 1)
				s := newHTTP2Site(t, maker, mode, &http.Server{
					Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/wait" {
							entered <- true
							<-r.Context().Done()
						}
						body, err := io.ReadAll(r.Body)
						read <- fmt.Sprint(len(body), " bytes, ", err)
					})})
				for range 10 {
					for _, how := range []string{"/", "/wait", "/wait and reset"} {
						s.leave(how, entered)
						select {
						case got := <-read:
							if got != "100 bytes, <nil>" {
								t.Errorf("%s: the handler has read %s", how, got)
							}
						case <-time.After(time.Minute):
							t.Fatalf("%s: the handler was not called", how)
						}
					}
				}
			})
		}
	}
}

// leave sends a request to a path, and leaves at once or when its handler was called.
func (s *http2Site) leave(how string, entered <-chan bool) {
	s.Helper()
	c := s.raw()
	c.send()
	c.awaitFrame(func(f http2.Frame) bool { // unread input would make the system reset the connection
		settings, ok := f.(*http2.SettingsFrame)
		return ok && settings.IsAck()
	})
	path, _, resets := strings.Cut(how, " and ")
	c.open(1, http.MethodPost, path, false)
	c.WriteData(1, true, make([]byte, 100))
	c.send()
	if path == "/wait" {
		<-entered
	}
	if resets {
		c.WriteRSTStream(1, http2.ErrCodeCancel)
		c.send()
		return
	}
	c.Conn.Close()
}

// awaitFrame reads frames until one is wanted.
func (r *rawHTTP2) awaitFrame(isWanted func(http2.Frame) bool) {
	r.Helper()
	for {
		f, err := r.ReadFrame()
		testkit.Must(r, err)
		if isWanted(f) {
			return
		}
	}
}
