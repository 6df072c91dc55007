package engine_test

import (
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// Several connections become ready at once, each with a request and the beginning of the next one.
// The loop sends the responses together, and loses nothing of the next requests.
func TestFCGIResponsesThatLeaveTogetherKeepNextRequests(t *testing.T) {
	const peers, rounds = 12, 20
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var send atomic.Pointer[func()]
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/send" {
			(*send.Load())()
		}
		io.WriteString(w, r.URL.Path)
	}
	someFCGIModes(t, func() *http.Server { return &http.Server{Handler: http.HandlerFunc(handler)} },
		func(s *fcgiSite) {
			sender := s.peer()
			var all [peers]*fcgiPeer
			for i := range all {
				all[i] = s.peer()
			}
			first, second := aGET("/first"), aGET("/second")
			for round := range rounds {
				cut := 1 + round*(len(second)-1)/rounds
				send.Store(new(func() {
					for _, p := range all {
						io.WriteString(p.Conn, first+second[:cut])
					}
				}))
				if a := sender.roundTrip(aGET("/send")); a.body != "/send" {
					s.Fatalf("%v", a)
				}
				for _, p := range all {
					if a := p.readResponse(); a.body != "/first" {
						s.Fatalf("%v", a)
					}
					if a := p.roundTrip(second[cut:]); a.body != "/second" {
						s.Fatalf("%v", a)
					}
				}
			}
		}, "unix", "tcp")
}
