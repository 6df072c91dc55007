package engine_test

import (
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// Several connections become ready at once, each with a request and a part of what follows it: the
// padding of its last record, a record to ignore, and the next request. The loop sends the
// responses together, and loses nothing of the next requests.
func TestFCGIResponsesThatLeaveTogetherKeepNextRequests(t *testing.T) {
	const peers, padding = 12, 5
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
			first := fcgiRequest{uri: "/first"}.head() + padded(stdinStream, 1, "", padding)
			text := first + rec(stdinStream, 7, "ignored") + aGET("/second")
			for cut := len(first) - padding; cut < len(text); cut++ {
				send.Store(new(func() {
					for _, p := range all {
						io.WriteString(p.Conn, text[:cut])
					}
				}))
				if a := sender.roundTrip(aGET("/send")); a.body != "/send" {
					s.Fatalf("%v", a)
				}
				for _, p := range all {
					if a := p.readResponse(); a.body != "/first" {
						s.Fatalf("%v", a)
					}
					if a := p.roundTrip(text[cut:]); a.body != "/second" {
						s.Fatalf("%v", a)
					}
				}
			}
		}, "tcp, on loop", "tcp", "unix")
}
