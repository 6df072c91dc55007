package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tarehq/tare/front/conf"
)

// decoded returns the body of a response without its coding.
func decoded(t testing.TB, coding string, body io.Reader) io.Reader {
	t.Helper()
	switch coding {
	case "br":
		return brotli.NewReader(body)
	case "zstd":
		r, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		must(t, err)
		t.Cleanup(r.Close)
		return r
	case "gzip":
		r, err := gzip.NewReader(body)
		must(t, err)
		return r
	}
	return body
}

// compressing are settings with all codings.
func compressing() conf.Settings {
	c := &conf.Compression{Vary: true}
	return conf.Settings{Brotli: c, Zstd: c, Gzip: &conf.Gzip{Vary: true}}
}

// A client gets the coding that it accepts; br comes before zstd, and that before gzip.
func TestCodingsAreNegotiated(t *testing.T) {
	page := strings.Repeat("compress me ", 10_000)
	a := frontOf(t, compressing(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Etag", `"a"`)
		n := len(page)
		if r.URL.RawQuery != "" {
			_, _ = fmt.Sscan(r.URL.RawQuery, &n)
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		for i := 0; i < n; i += 5000 {
			io.WriteString(w, page[i:min(i+5000, n)])
		}
	})
	for accept, want := range map[string]string{
		"": "", "br": "br", "zstd": "zstd", "gzip": "gzip", "gzip, zstd": "zstd", "gzip, deflate, br, zstd": "br",
		"br;q=0, zstd": "zstd", "BR": "br", "*": "", "identity": "",
	} {
		for _, path := range []string{"/", "/?1000"} {
			got := a.get(path, "Accept-Encoding", accept)
			coding := got.header.Get("Content-Encoding")
			if coding != want || got.header.Get("Vary") != "Accept-Encoding" ||
				strings.HasPrefix(got.header.Get("Etag"), "W/") != (want != "") {
				t.Errorf("%q: %v, want %q", accept, got.header, want)
			}
			body, err := io.ReadAll(decoded(t, coding, strings.NewReader(got.body)))
			wanted := map[string]string{"/": page, "/?1000": page[:1000]}[path]
			if err != nil || string(body) != wanted {
				t.Errorf("%q: %d bytes, %v", accept, len(body), err)
			}
		}
	}
	if got := a.get("/?19", "Accept-Encoding", "br, zstd, gzip"); got.header.Get("Content-Encoding") != "" {
		t.Errorf("a short body: %v", got.header)
	}
	if got := a.do("HEAD", "/", nil, "Accept-Encoding", "br"); got.header.Get("Content-Encoding") != "br" {
		t.Errorf("HEAD: %v", got.header)
	}
}

// What a handler flushes arrives at once.
func TestFlushedBytesAreCompressedAtOnce(t *testing.T) {
	for _, coding := range []string{"br", "zstd", "gzip"} {
		next := make(chan bool)
		a := frontOf(t, compressing(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for range 3 {
				io.WriteString(w, "a line of text that has some length\n")
				w.(http.Flusher).Flush()
				<-next
			}
		})
		r, err := http.NewRequest("GET", "http://front.test/", nil)
		must(t, err)
		r.Header.Set("Accept-Encoding", coding)
		resp, err := a.client.Do(r)
		must(t, err)
		lines := bufio.NewReader(decoded(t, coding, resp.Body))
		for range 3 {
			if line, err := lines.ReadString('\n'); err != nil || line != "a line of text that has some length\n" {
				t.Errorf("%s: %q %v", coding, line, err)
			}
			next <- true
		}
		if _, err := lines.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v at the end", coding, err)
		}
		resp.Body.Close()
	}
}
