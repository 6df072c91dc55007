package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// What a handler keeps does not change. In builds with the poison tag all reused memory is
// overwritten, so that this test detects anything that refers to it.
func TestKeptRequestsDoNotChange(t *testing.T) {
	type keepsake struct {
		request *http.Request
		text    string
	}
	var mu sync.Mutex
	var kept []keepsake
	describe := func(r *http.Request) string {
		return fmt.Sprintf("%s %s %v %v %s %v", r.Method, r.RequestURI, r.URL, r.Header, r.Host, r.Trailer)
	}
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, keepsake{r, describe(r)})
		w.Write(b)
	}), func(s *site) {
		kept = nil
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 20 {
					req, _ := http.NewRequest("POST", fmt.Sprintf("http://host/%d/%d?q=%d", i, j, j),
						io.MultiReader(strings.NewReader("body")))
					req.Header.Set("X-Own", strings.Repeat(fmt.Sprint(i, j), j))
					req.Header.Set("Custom-Name", "x")
					req.Trailer = http.Header{"Sum": {fmt.Sprint(j)}}
					resp, err := s.client.Do(req)
					if err != nil {
						s.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
		for _, k := range kept {
			if now := describe(k.request); now != k.text {
				s.Errorf("was %s\nis %s", k.text, now)
			}
			if _, err := k.request.Body.Read(make([]byte, 1)); err == nil {
				s.Error("body can still be read")
			}
		}
		if len(kept) != 80 {
			s.Errorf("%d requests seen", len(kept))
		}
	})
}
