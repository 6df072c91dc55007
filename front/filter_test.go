package front_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// Added header fields disable neither sendfile nor the other methods of the server's writer.
func TestWriterKeepsServersMethods(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	must(t, os.WriteFile(name, content, 0o600))
	h := newFront(t, oneHost(app(conf.Settings{SendTimeout: time.Minute,
		Header: []conf.AddHeader{{Name: "X-A", Value: "b"}}})),
		front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if n, err := io.Copy(w, io.LimitReader(f, int64(len(content)-7))); err != nil ||
				n != int64(len(content)-7) {
				t.Error(n, err)
			}
			if n, err := io.Copy(w, f); err != nil || n != 7 { // and it continues where it stopped
				t.Error(n, err)
			}
		})))
	direct := make(chan bool, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&copier{w, direct}, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	must(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(b, content) || resp.Header.Get("X-A") != "b" {
		t.Errorf("%d bytes, %v, %q", len(b), err, resp.Header)
	}
	for len(direct) > 0 {
		if !<-direct {
			t.Error("the server was not given a file")
		}
	}
}

// copier records whether it received a file, as sendfile requires.
type copier struct {
	http.ResponseWriter
	direct chan bool
}

func (c *copier) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		_, ok = limited.R.(syscall.Conn)
	}
	c.direct <- ok
	return c.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Filters and logs do not change responses.
func TestFiltersDoNotChangeResponses(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"string": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>"+strings.Repeat("x", 5000))
		},
		"status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("abc"))
		},
		"late field": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set("X-Late", "1")
			_, _ = w.Write([]byte("abc"))
		},
		"trailer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 5000))
			w.Header().Set(http.TrailerPrefix+"X-After", "1")
		},
		"copy": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("copied")) },
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_,
				_ = w.Write([]byte("abc"))
		},
		"typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("abc"))
		},
	}
	settings := conf.Settings{Logs: []conf.Log{{Path: filepath.Join(t.TempDir(), "log")}}, SendTimeout: time.Minute,
		Gzip: &conf.Gzip{MinLength: 1000}, Rate: "100m"}
	for name, handler := range handlers {
		bare, ours := frontOf(t, conf.Settings{}, handler), frontOf(t, settings, handler)
		for _, method := range []string{"GET", "HEAD"} {
			want, got := bare.do(method, "/", nil), ours.do(method, "/", nil)
			want.header.Del("Date")
			got.header.Del("Date")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %s: %.200v, want %.200v", method, name, got, want)
			}
		}
	}
}
