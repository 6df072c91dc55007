package engine_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
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
