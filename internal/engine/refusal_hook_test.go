package engine_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/engine"
)

// lateHead is an incomplete head, and badHead a malformed one.
const (
	badHead = "bad\r\n\r\n"
)

// A hook that panics neither ends the process nor costs a client its due responses.
func TestRefusedHookPanicAffectsNoResponse(t *testing.T) {
	for send, want := range map[string]int{badHead: 1, get + badHead: 2} {
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "good")
		})}
		someServers(t, set, func(s *engine.Server, _ *http.Server) {
			s.Refused = func(engine.Refusal) { panic("hook's") }
		}, func(s *site) {
			c := s.connect()
			io.WriteString(c, send)
			if got, err := io.ReadAll(c); strings.Count(string(got), "HTTP/1.1 ") != want || err != nil {
				s.Errorf("%q: got %q, %v", send, got, err)
			}
			if logged := s.logged.String(); !strings.Contains(logged, "hook's") {
				s.Errorf("%q: logged %q", send, logged)
			}
		}, "tcp", "net.Conn", "tls", "ServeTLS")
	}
}
