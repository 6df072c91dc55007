package fcgi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
)

// drain receives until the end of the connection.
func (p *peer) drain() {
	for _, ok := p.next(); ok; _, ok = p.next() {
	}
}

// Many goroutines send requests with long and short bodies and cancel some, for the race detector.
func TestConcurrentRequestsShareAPool(t *testing.T) {
	tr := checked(t, &fcgi.Transport{MaxConnsPerHost: 4, MaxIdleConnsPerHost: 2,
		Addr: application(t, "unix", func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Same", r.Header.Get("X-Same"))
			w.Write(b)
		})})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 40 {
				body := bytes.Repeat([]byte{byte('a' + i)}, j*j*50)
				r := newRequest(t, "PUT", address, bytes.NewReader(body))
				r.Header.Set("X-Same", fmt.Sprint(i, j))
				ctx, cancel := context.WithCancel(t.Context())
				if j%5 == 4 {
					time.AfterFunc(time.Duration(j)*10*time.Microsecond, cancel)
				}
				resp, got, err := responseTo(tr, r.WithContext(ctx))
				cancel()
				if err != nil && j%5 != 4 || err == nil &&
					(got != string(body) || resp.Header.Get("X-Same") != fmt.Sprint(i, j)) {
					t.Errorf("%d %d: %d bytes, %v", i, j, len(got), err)
				}
			}
		})
	}
	all.Wait()
}
