package front_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
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

// Streams are forwarded completely and in order, whoever sends a piece: the goroutine or the loop that
// receives it, or their own goroutine. There are clients that read slowly, that leave, and upstreams
// that abort.
func TestStreamsAreForwardedInOrder(t *testing.T) {
	testkit.Long(t, "it transfers much")
	for _, protocol := range []string{"1.1", "2"} {
		t.Run("HTTP/"+protocol, func(t *testing.T) { testStreams(t, protocol) })
	}
}

func testStreams(t *testing.T, protocol string) {
	noLeaks(t)
	text := pattern(600_000)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol != "2")
	protocols.SetUnencryptedHTTP2(protocol == "2")
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
	up.Config.Protocols, up.Config.ErrorLog = protocols, log.New(io.Discard, "", 0)
	up.Start()
	t.Cleanup(up.Close)
	log := filepath.Join(t.TempDir(), "log")
	a := serveByTare(t, newFront(t, parseConf(t, `log_format sent "$body_bytes_sent $request_uri";`,
		fmt.Sprintf("access_log %s sent; proxy_http_version %s; proxy_buffering off; location / { proxy_pass http://%s; }",
			log, protocol, up.Listener.Addr()))))
	transport := &http.Transport{Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		},
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
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
