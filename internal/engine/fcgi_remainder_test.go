package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// MN-46: TestLeftoverGoroutinesAffectNoOtherConnection over FastCGI. Here leftover goroutines also
// use the error stream. A record that one opens in another response would cut that response in two.
func TestFCGILeftoverGoroutinesAffectNoOtherConnection(t *testing.T) {
	if testkit.Race {
		t.Skip("the handlers here are racy, on purpose")
	}
	var stop atomic.Bool
	var lateCalls sync.WaitGroup
	leave := func(w http.ResponseWriter, r *http.Request) {
		lateCalls.Go(func() {
			control, errs := http.NewResponseController(w), stderrOf(w)
			evil := bytes.Repeat([]byte("EVIL"), 300)
			for i := 0; i < 2000 && !stop.Load(); i++ {
				switch i % 8 {
				case 2:
					_, _ = errs.Write(evil)
				case 3:
					_ = control.Flush()
				case 4:
					_ = control.SetReadDeadline(time.Unix(1, 0))
					_ = control.SetWriteDeadline(time.Unix(1, 0))
				case 5:
					_, _ = r.Body.Read(make([]byte, 100))
				case 6:
					_ = r.Context().Err()
				default:
					_, _ = w.Write(evil)
				}
				if i%50 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	bothFCGIPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leave" {
			leave(w, r)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s%s.", r.URL.Path, b)
	}), func(s *fcgiSite) {
		stop.Store(false)
		deadline := time.Now().Add(soak(time.Second, 30*time.Second))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for time.Now().Before(deadline) {
					c, err := s.dial()
					if err != nil {
						s.Error(err)
						return
					}
					io.WriteString(c, fcgiRequest{method: "POST", uri: "/leave",
						params: []string{"CONTENT_LENGTH", "5"}}.head()+rec(stdinStream, 1, "he"))
					c.SetDeadline(time.Now().Add(5 * time.Millisecond))
					c.Read(make([]byte, 1000))
					c.Close()
				}
			})
		}
		for i := range 4 {
			wg.Go(func() { s.sendAndCheck(i, deadline) })
		}
		wg.Wait()
		stop.Store(true)
		lateCalls.Wait()
	})
}

// sendAndCheck sends requests and checks the responses until the deadline.
func (s *fcgiSite) sendAndCheck(id int, deadline time.Time) {
	c, err := s.dial()
	if err != nil {
		s.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(deadline.Add(time.Minute))
	p := newFCGIPeer(s.T, c)
	for j := 0; time.Now().Before(deadline); j++ {
		path, body := fmt.Sprintf("/%d-%d", id, j), strings.Repeat("hello", j%200)
		sent := p.send(fcgiRequest{id: 1 + j%1000, method: "POST", uri: path, body: body, length: true}.String())
		a, err := p.tryReadResponse()
		if <-sent; err != nil || a.id != 1+j%1000 || a.body != path+body+"." || len(a.stderr) > 0 {
			s.Errorf("%s: %v, %v", path, a, err)
			return
		}
	}
}
