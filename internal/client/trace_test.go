package client

import (
	"fmt"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The hooks of httptrace are called in the same order for both protocols. Only a body that a second
// goroutine sends may end after the response's first byte.
func TestTraceHooksAreCalledInOrder(t *testing.T) {
	for _, body := range []string{"", "short", strings.Repeat("long", 10_000)} {
		overAll(t, func(s *site) {
			s.serve(func(_ int, c speaker) { serveAll(c, "hello") })
			for i := range 2 {
				var mu sync.Mutex
				var got []string
				add := func(text string) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, text)
				}
				hooks := &httptrace.ClientTrace{
					GetConn: func(addr string) { add("get " + addr) },
					GotConn: func(i httptrace.GotConnInfo) {
						add(fmt.Sprint("got ", i.Reused, i.WasIdle))
					},
					PutIdleConn:          func(err error) { add(fmt.Sprint("put ", err)) },
					WroteHeaders:         func() { add("headers") },
					WroteRequest:         func(w httptrace.WroteRequestInfo) { add(fmt.Sprint("request ", w.Err)) },
					GotFirstResponseByte: func() { add("byte") },
				}
				r := s.request("POST", strings.NewReader(body))
				s.must(r.WithContext(httptrace.WithClientTrace(r.Context(), hooks)), "hello")
				testkit.WaitFor(s.T, "all hooks", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(got) >= 6
				})
				if len(body) > smallBody {
					slices.Sort(got[3:])
				}
				want := fmt.Sprintf("get host:1|got %v %[1]v|headers|request <nil>|byte|put <nil>", i > 0)
				if len(body) > smallBody {
					want = strings.Replace(want, "request <nil>|byte|put <nil>", "byte|put <nil>|request <nil>", 1)
				}
				if got := strings.Join(got, "|"); got != want {
					s.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}
