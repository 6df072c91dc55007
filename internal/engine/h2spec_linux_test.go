package engine_test

import (
	"bytes"
	"fmt"
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
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The server conforms to HTTP/2 and HPACK as h2spec checks it, over every kind of connection,
// whether or not the handler reads the bodies: in the quick form on one path of two, without and with
// TLS.
func TestHTTP2ConformsToH2spec(t *testing.T) {
	t.Parallel()
	h2spec := programs.H2Spec(t)
	for mode := range http2Modes {
		t.Run(mode, func(t *testing.T) {
			var onShard, elsewhere atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isOnShard() {
					onShard.Add(1)
				} else {
					elsewhere.Add(1)
				}
				if r.URL.Path == "/read" {
					io.Copy(io.Discard, r.Body)
				}
				io.WriteString(w, "hello")
			})
			s := newHTTP2Site(t, "tare", mode, &http.Server{Handler: handler})
			args := []string{"-h", "127.0.0.1", "-p", fmt.Sprint(s.address().(*net.TCPAddr).Port), "-o", "10"}
			if isTLS(mode) {
				args = append(args, "-t", "-k")
			}
			for _, path := range []string{"/read", "/unread"} {
				isOther := (path == "/read") != (mode == "h2c-shard" || mode == "h2-tls-goroutine")
				if isOther && !testkit.Slow() {
					continue
				}
				out, err := testkit.Command(t, h2spec, append(args, "-P", path)...).CombinedOutput()
				text := string(out)
				_, failures, _ := strings.Cut(text, "Failures:")
				if err != nil || !strings.Contains(text, "145 passed, 0 skipped, 0 failed") {
					t.Errorf("%s: %v\n%s%s", path, err, failures, text[max(0, len(text)-200):])
				}
			}
			right, wrong := onShard.Load(), elsewhere.Load()
			if strings.HasSuffix(mode, "-goroutine") {
				right, wrong = wrong, right
			}
			if right == 0 || wrong != 0 {
				t.Errorf("%d requests were served on shards, %d elsewhere", onShard.Load(), elsewhere.Load())
			}
		})
	}
}

// isOnShard reports whether a shard runs the calling handler. A stack includes the function that
// started its goroutine.
func isOnShard() bool {
	stack := make([]byte, 64<<10)
	return bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("/internal/engine/shard."))
}

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
				return describeWhole(t, <-responded, true)
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			for name, text := range fcgiCorpus() {
				s.Run(name, func(t *testing.T) {
					want := exchange(t, []string{text})
					n, splits := 1, [][]string(nil)
					if testkit.Slow() {
						n, splits = 40, [][]string{strings.Split(text, "")}
					}
					for range n {
						cut := rnd.IntN(len(text) + 1)
						splits = append(splits, []string{text[:cut], text[cut:]}, cutAt(text, rnd.Uint64()))
					}
					for _, pieces := range splits {
						testkit.Equal(t, exchange(t, pieces), want, fmt.Sprintf("%q", pieces))
					}
				})
			}
		}, "unix")
}
