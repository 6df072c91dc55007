package http_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file replaces those parts of net/http's tests that use net/http's internals, and its
// main_test.go.

var quietLog = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// run is runModes, but tests that run over HTTP/1.1 and HTTP/2 also run over HTTP/1.1 with TLS, and
// over HTTP/2 without it. If TARE_MODE is set, they run in this mode only.
func run[T TBRun[T]](t T, f func(t T, mode testMode), opts ...any) {
	t.Helper()
	other := map[testMode]testMode{http1Mode: https1Mode, http2Mode: http2UnencryptedMode}
	all := []any{testAddMode{https1Mode, http2UnencryptedMode}, testSkipMode{"h3"}}
	for _, o := range opts {
		if modes, ok := o.([]testMode); ok && slices.Equal(modes, []testMode{http1Mode, http2Mode}) {
			continue // the default before HTTP/3
		}
		if skipped, ok := o.(testSkipMode); ok {
			for _, mode := range skipped {
				skipped = append(slices.Clip(skipped), other[mode])
			}
			o = skipped
		}
		all = append(all, o)
	}
	if only := testMode(os.Getenv("TARE_MODE")); only != "" {
		modes := []testMode{http1Mode, https1Mode, http2Mode, http2UnencryptedMode}
		all = append(all, testSkipMode(slices.DeleteFunc(modes, func(m testMode) bool { return m == only })))
	}
	runModes(t, f, all...)
}

// CondSkipHTTP2 skips nothing: HTTP/2 is enabled.
func CondSkipHTTP2(testing.TB) {}

// SetRSTAvoidanceDelay changes nothing: tests try again with longer timeouts.
func SetRSTAvoidanceDelay(*testing.T, time.Duration) {}

// ExportHttp2ConfigureServer makes a server offer HTTP/2.
func ExportHttp2ConfigureServer(s *http.Server, _ any) error {
	if s.TLSConfig == nil {
		s.TLSConfig = new(tls.Config)
	}
	s.TLSConfig.NextProtos = append(s.TLSConfig.NextProtos, "h2")
	return nil
}

// ExportHttp2ConfigureTransport makes a client offer HTTP/2.
func ExportHttp2ConfigureTransport(t *http.Transport) error {
	t.ForceAttemptHTTP2 = true
	return nil
}

func setParallel(t *testing.T) {
	if testing.Short() {
		t.Parallel()
	}
}

func runningBenchmarks() bool { return false }

func afterTest(testing.TB) { http.DefaultTransport.(*http.Transport).CloseIdleConnections() }

// waitCondition calls fn with the time since its first call until it returns true.
func waitCondition(t testing.TB, delay time.Duration, fn func(time.Duration) bool) {
	t.Helper()
	for begun := time.Now(); !fn(time.Since(begun)); delay += delay / 2 {
		time.Sleep(delay)
	}
}

// interestingGoroutines returns the stacks of all goroutines.
func interestingGoroutines() []string {
	b := make([]byte, 2<<20)
	return strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n")
}
