package engine_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// waitUntilReceived waits until the server has received everything: the kernel reports how much of
// a unix socket's data is unread.
func waitUntilReceived(t *testing.T, c *net.UnixConn) {
	raw, err := c.SyscallConn()
	testkit.Must(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Microsecond) {
		unread := 0
		rerr := raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if rerr != nil || err != nil || unread == 0 {
			return // perhaps it was closed
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes were not received", unread)
		}
	}
}

// On shards a runner parks a connection whose request is incomplete. The responses are the same
// wherever and however often that happens.
func TestFCGIResponsesOnShardsAreIndependentOfSplit(t *testing.T) {
	testkit.Long(t, "it splits responses at every byte")
	someFCGIModes(t, func() *http.Server { return &http.Server{Handler: http.HandlerFunc(fcgiProbe)} },
		func(s *fcgiSite) {
			exchange := func(t *testing.T, pieces []string) string {
				c := s.in(t).connect().(*net.UnixConn)
				defer c.Close()
				responded := make(chan []byte)
				go func() {
					all, _ := io.ReadAll(c)
					responded <- all
				}()
				for _, p := range pieces {
					if _, err := io.WriteString(c, p); err != nil {
						break
					}
					waitUntilReceived(t, c)
				}
				c.CloseWrite()
				return inOrder(t, <-responded, true)
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			for name, text := range fcgiCorpus() {
				s.Run(name, func(t *testing.T) {
					want := exchange(t, []string{text})
					n, splits := 3, [][]string(nil)
					if testkit.Slow() {
						n, splits = 40, [][]string{strings.Split(text, "")}
					}
					for range n {
						cut := rnd.IntN(len(text) + 1)
						splits = append(splits, []string{text[:cut], text[cut:]}, cutAt(text, rnd.Uint64()))
					}
					for _, pieces := range splits {
						if got := exchange(t, pieces); got != want {
							t.Fatalf("pieces %q\nwhole: %s\nsplit: %s", pieces, want, got)
						}
					}
				})
			}
		}, "unix")
}

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
