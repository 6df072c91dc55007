package front_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// gunzipping serves what write writes as a body with gzip.
func gunzipping(t testing.TB, write func(w io.Writer)) *testClient {
	t.Helper()
	return frontOf(t, conf.Settings{Gunzip: &conf.Gzip{Vary: true}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Etag", `"a"`)
		w.Header().Set("Content-Type", "text/plain")
		write(w)
	})
}

// The pieces in which a body arrives do not matter, whether they are flushed or not.
func TestGunzipAcceptsAnyPieces(t *testing.T) {
	packed := gzipped(t, strings.Repeat("some text, ", 50)+"and more")
	var pieces [][]byte
	a := gunzipping(t, func(w io.Writer) {
		for i, piece := range pieces {
			w.Write(piece)
			if i%2 == 1 {
				w.(http.Flusher).Flush()
			}
		}
	})
	testkit.EverySplit(t, packed, func(p [][]byte) string {
		pieces = p
		return a.get("/").body
	})
}

// A response that is cut off or not gzip at all is aborted, so that the client sees it.
func TestInvalidGzipIsAborted(t *testing.T) {
	packed := gzipped(t, strings.Repeat("some text, ", 20_000))
	for name, body := range map[string][]byte{
		"cut off": packed[:len(packed)/2], "no gzip": []byte("text"), "empty": nil,
		"damaged": append(bytes.Clone(packed[:len(packed)-8]), "12345678"...),
	} {
		a := frontOf(t, conf.Settings{Gunzip: &conf.Gzip{}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			w.Write(body)
		})
		if _, err := a.attempt("GET", "/", nil); err == nil {
			t.Errorf("%s: the response seems to be complete", name)
		}
	}
}

// A handler may lock its goroutine to a thread when it likes: what decompresses does not depend on
// that.
func TestGunzipForHandlersThatLockThreads(t *testing.T) {
	body := strings.Repeat("some text, ", 20_000)
	packed := gzipped(t, body)
	for name, write := range map[string]func(w io.Writer){
		"whole": func(w io.Writer) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			w.Write(packed)
		},
		"later": func(w io.Writer) {
			w.Write(packed[:100])
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			w.Write(packed[100:])
		},
	} {
		if got := gunzipping(t, write).get("/"); got.body != body {
			t.Errorf("%s: %d bytes", name, len(got.body))
		}
	}
}

// A response that a handler abandons leaves nothing behind, and nothing more of it is sent.
func TestGunzipOfAbandonedResponses(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("responses", func(t *testing.T) {
		packed := gzipped(t, strings.Repeat("some text, ", 20_000))
		a := gunzipping(t, func(w io.Writer) {
			w.Write(packed[:len(packed)/2])
			panic(http.ErrAbortHandler)
		})
		for range 50 {
			if _, err := a.attempt("GET", "/", nil); err == nil {
				t.Error("the response seems to be complete")
			}
		}
	})
	testkit.WaitFor(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= before+20 })
}
