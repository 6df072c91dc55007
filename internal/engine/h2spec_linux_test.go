package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
				if testkit.RunsIn("/internal/engine/shard.") {
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
