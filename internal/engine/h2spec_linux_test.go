package engine_test

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The server conforms to HTTP/2 and HPACK as h2spec checks it, over every kind of connection,
// whether or not the handler reads the bodies.
func TestHTTP2ConformsToH2spec(t *testing.T) {
	h2spec := programs.H2Spec(t)
	for mode, kind := range http2Modes {
		t.Run(mode, func(t *testing.T) {
			inner, _ := modes["tcp"](t)
			address, l := inner.Addr(), inner
			args := []string{"-h", "127.0.0.1", "-p", portOf(address), "-o", "10"}
			set := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
			switch kind {
			case "tls":
				l = secureFor(mode, l)
				args = append(args, "-t", "-k")
			default:
				set.Protocols = new(http.Protocols)
				set.Protocols.SetUnencryptedHTTP2(true)
				if kind == "net.Conn" {
					l = struct{ net.Listener }{l}
				}
			}
			var onShard, elsewhere atomic.Int64
			set.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			s := engine.New(set)
			served := goServe(s, l)
			defer func() {
				s.Close()
				<-served
			}()
			for _, path := range []string{"/read", "/unread"} {
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

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		panic(err)
	}
	return port
}
