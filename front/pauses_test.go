package front_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// An HTTP/2 response may pause for longer than send_timeout while nothing waits to be sent.
func TestPausedResponseDoesNotTimeOut(t *testing.T) {
	noLeaks(t)
	const timeout = 50 * time.Millisecond
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		timer := time.NewTimer(4 * timeout) // the pause is the subject of the test
		<-timer.C
		_, _ = io.WriteString(w, "second")
	})
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)},
		Settings: conf.Settings{SendTimeout: timeout}})
	s := httptest.NewUnstartedServer(newFront(t, c, quiet()))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	testkit.Try(t, func() error { // each of the two parts must be sent within the timeout
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "first second" || resp.ProtoMajor != 2 {
			return fmt.Errorf("%s: %q, %w", resp.Proto, b, err)
		}
		return nil
	})
}
