package front_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Streams of a connection to an upstream are forwarded completely and in order, whether the
// goroutine that receives them or their own sends a piece: with clients that read slowly, that
// leave, and with an upstream that aborts.
func TestStreamsOfHTTP2AreForwardedInOrder(t *testing.T) {
	testkit.Long(t, "it transfers much")
	noLeaks(t)
	text := pattern(600_000)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := 20_000
		if strings.Contains(r.URL.Path, "small") {
			most = 300
		}
		rest := text
		if most == 300 {
			rest = rest[:100_000]
		}
		for len(rest) > 0 {
			n := min(1+rand.IntN(most), len(rest))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			rest = rest[n:]
			if strings.Contains(r.URL.Path, "aborted") && len(rest) < 50_000 {
				panic(http.ErrAbortHandler)
			}
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}))
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	log := filepath.Join(t.TempDir(), "log")
	a := serveByTare(t, newFront(t, parseConf(t, `log_format sent "$body_bytes_sent $request_uri";`,
		fmt.Sprintf("access_log %s sent; proxy_http_version 2; proxy_buffering off; location / { proxy_pass http://%s; }",
			log, up.Listener.Addr()))))
	transport := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		},
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	var all sync.WaitGroup
	for i := range 60 {
		path := []string{"/large", "/small", "/small/slow", "/large/slow", "/small/aborted", "/small/left"}[i%6]
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", "http://front.test"+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Error(path, err)
				return
			}
			defer resp.Body.Close()
			in, want := io.Reader(resp.Body), text
			if strings.Contains(path, "small") {
				want = want[:100_000]
			}
			if strings.HasSuffix(path, "slow") {
				in = onlyPieces{resp.Body}
			}
			if strings.HasSuffix(path, "left") {
				_, _ = io.CopyN(io.Discard, in, 1000)
				return
			}
			got, err := io.ReadAll(in)
			isAborted := strings.HasSuffix(path, "aborted")
			switch {
			case ctx.Err() != nil, !strings.HasPrefix(want, string(got)), isAborted != (err != nil):
				t.Errorf("%s: %d bytes, %v", path, len(got), errors.Join(err, ctx.Err()))
			case !isAborted && (len(got) != len(want) || resp.Trailer.Get("Grpc-Status") != "0"):
				t.Errorf("%s: %d bytes, trailer %v", path, len(got), resp.Trailer)
			}
		})
	}
	all.Wait()
	for _, line := range awaitLines(t, log, 60) {
		var sent int
		var path string
		if _, err := fmt.Sscan(line, &sent, &path); err != nil || path == "/large" && sent != len(text) ||
			path == "/small" && sent != 100_000 {
			t.Errorf("log: %q", line)
		}
	}
}

// onlyPieces reads at most 500 bytes at a time.
type onlyPieces struct{ io.Reader }

func (r onlyPieces) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(len(b), 500)]) }
