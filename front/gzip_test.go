package front_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// respondAsQuery responds as the query describes.
func respondAsQuery(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	header := w.Header()
	for name, values := range q {
		if strings.HasPrefix(name, "H-") {
			header[strings.TrimPrefix(name, "H-")] = values
		}
	}
	n, _ := strconv.Atoi(q.Get("n"))
	body := strings.Repeat("compress me ", n/12+1)[:n]
	if q.Get("len") != "" {
		header.Set("Content-Length", strconv.Itoa(n))
	}
	if status, _ := strconv.Atoi(q.Get("status")); status != 0 {
		w.WriteHeader(status)
	}
	step := n
	if s, _ := strconv.Atoi(q.Get("step")); s > 0 {
		step = s
	}
	for body != "" {
		k := min(step, len(body))
		_, _ = io.WriteString(w, body[:k])
		body = body[k:]
	}
}

// The same responses are compressed as by nginx, with the same header.
func TestGzipIsSameAsNginx(t *testing.T) {
	theirApp := serveHandler(t, http.HandlerFunc(respondAsQuery))
	proxied := []string{"off", "any", "expired", "no-cache", "no-store private", "no_last_modified", "no_etag", "auth"}
	var locations strings.Builder
	var ours []conf.Location
	for i, p := range proxied {
		fmt.Fprintf(&locations, "location /%d/ { gzip_proxied %s; proxy_pass http://unix:%s; }\n", i, p,
			theirApp.socket)
		l := app(conf.Settings{Gzip: &conf.Gzip{
			MinLength: 100, Types: []string{"application/json", "text/plain"}, Vary: true, Proxied: strings.Fields(p),
			Disable: []string{"BadBot", "msie6"},
		}})
		l.Path = fmt.Sprintf("/%d/", i)
		ours = append(ours, l)
	}
	theirs, _ := serveNginx(t, "",
		`gzip on; gzip_min_length 100; gzip_types application/json text/plain; gzip_vary on; gzip_disable BadBot msie6;
		proxy_http_version 1.1; proxy_set_header Accept-Encoding ""; `+locations.String())
	us := serveHandler(t, newFront(t, oneHost(ours...), front.Bind("app", http.HandlerFunc(respondAsQuery))))
	for _, c := range gzipCases(len(proxied)) {
		want, got := theirs.do(c.method, c.path, nil, c.fields...), us.do(c.method, c.path, nil, c.fields...)
		what := fmt.Sprintf("%s %s %q", c.method, c.path, c.fields)
		if got.status != want.status || plainBody(t, got) != plainBody(t, want) {
			t.Errorf("%s: status %d, want %d, or another body", what, got.status, want.status)
		}
		for _, name := range []string{"Content-Encoding", "Vary", "Etag", "Accept-Ranges", "Content-Type"} {
			if g, w := got.header[name], want.header[name]; fmt.Sprint(g) != fmt.Sprint(w) {
				t.Errorf("%s: %s is %q, want %q", what, name, g, w)
			}
		}
	}
}

type gzipCase struct {
	method, path string
	fields       []string
}

func gzipCases(proxied int) []gzipCase {
	const html, big = "H-Content-Type=text/html", "&n=3000&len=1"
	var all []gzipCase
	add := func(path string, fields ...string) { all = append(all, gzipCase{"GET", path, fields}) }
	for _, accept := range []string{
		"gzip", "gzip, br", "br, gzip", "deflate", "", "*", "gzip;q=0", "gzip;q=0.0", "gzip;q=0.5", "gzip; q=1",
		"gzip;q=1.000", "GZIP", "x-gzip",
		"identity, gzip;q=0.001", "gzip;q=2", "gzip;q=", "gzip;q=x",
	} {
		add("/0/?"+html+big, "Accept-Encoding", accept)
	}
	for _, query := range []string{
		html + "&n=99&len=1", html + "&n=100&len=1", html + "&n=99", html + "&n=100", html + "&n=5000", html + "&n=0",
		html + "&n=5000&step=70",
		"H-Content-Type=text/html;charset=utf-8" + big, "H-Content-Type=TEXT/HTML" + big, "H-Content-Type=image/png" +
			big,
		"H-Content-Type=application/json" + big, "n=3000", "n=50", "n=3000&step=10", "n=50&len=1", "n=3000&status=200",
		html + big + "&status=404", html + big + "&status=403", html + big + "&status=500", html + big +
			"&status=201", html + "&status=204",
		html + big + "&status=206", html + big + "&H-Content-Encoding=br",
		html + big + "&H-Etag=" + url.QueryEscape(`"x"`), html + big + "&H-Etag=" + url.QueryEscape(`W/"x"`), html +
			big + "&H-Etag=x",
		html + big + "&H-Accept-Ranges=bytes",
	} {
		add("/0/?"+strings.ReplaceAll(query, ";", "%3B"), "Accept-Encoding", "gzip")
		if strings.HasSuffix(query, "&n=0") {
			continue // net/http leaves the length out here, without which it is not too short
		}
		all = append(all, gzipCase{"HEAD", "/0/?" + strings.ReplaceAll(query, ";", "%3B"),
			[]string{"Accept-Encoding", "gzip"}})
	}
	for i := range proxied {
		for _, query := range []string{
			"", "&H-Expires=" + url.QueryEscape("Thu, 01 Jan 1970 00:00:01 GMT"), "&H-Expires=" +
				url.QueryEscape("Thu, 31 Dec 2037 23:55:55 GMT"),
			"&H-Expires=soon", "&H-Cache-Control=no-cache", "&H-Cache-Control=no-store", "&H-Cache-Control=private",
			"&H-Cache-Control=public",
			"&H-Last-Modified=" + url.QueryEscape("Thu, 01 Jan 1970 00:00:01 GMT"), "&H-Etag=" + url.QueryEscape(`"x"`),
		} {
			add(fmt.Sprintf("/%d/?%s%s%s", i, html, big, query), "Accept-Encoding", "gzip", "Via", "1.1 p")
		}
		add(fmt.Sprintf("/%d/?%s%s", i, html, big), "Accept-Encoding", "gzip", "Via", "1.1 p", "Authorization",
			"Basic eDp5")
	}
	for _, agent := range []string{"x BadBot y", "Mozilla/4.0 (compatible; MSIE 6.0; Windows 98)", "curl"} {
		add("/0/?"+html+big, "Accept-Encoding", "gzip", "User-Agent", agent)
	}
	return all
}

// plainBody returns a decompressed body.
func plainBody(t *testing.T, r response) string {
	t.Helper()
	if r.header.Get("Content-Encoding") != "gzip" || r.body == "" {
		return r.body
	}
	z, err := gzip.NewReader(strings.NewReader(r.body))
	must(t, err)
	b, err := io.ReadAll(z)
	must(t, err)
	return string(b)
}

// $gzip_ratio is the ratio of the handler's bytes to those sent.
func TestGzipRatioIsLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	c := oneHost(app(conf.Settings{Gzip: &conf.Gzip{Types: []string{"text/plain"}},
		Logs: []conf.Log{{Path: name, Format: "ratio"}}}))
	c.LogFormats = []conf.LogFormat{{Name: "ratio", Text: "$body_bytes_sent $gzip_ratio"}}
	h, err := front.New(c, front.Bind("app", http.HandlerFunc(respondAsQuery)))
	must(t, err)
	for _, coding := range []string{"gzip", ""} {
		r := httptest.NewRequest("GET", "/?n=3000&H-Content-Type=text/plain", nil)
		r.Header.Set("Accept-Encoding", coding)
		h.ServeHTTP(newRecorder(), r)
	}
	must(t, h.Close()) // which writes the log
	text, err := os.ReadFile(name)
	must(t, err)
	lines := strings.Split(string(text), "\n")
	var sent int
	var ratio float64
	if n, err := fmt.Sscanf(lines[0], "%d %f", &sent, &ratio); n != 2 || err != nil || sent == 0 ||
		math.Abs(ratio-3000/float64(sent)) > 0.00501 || len(lines[0])-strings.IndexByte(lines[0], '.') != len(".00") {
		t.Errorf("%q", lines[0])
	}
	if lines[1] != "3000 -" {
		t.Errorf("%q", lines[1])
	}
}

// recorder is a server's writer in memory.
type recorder struct {
	mu      sync.Mutex
	header  http.Header
	status  int
	body    bytes.Buffer
	flushes int
}

func newRecorder() *recorder { return &recorder{header: make(http.Header)} }

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(code int) {
	r.status = code
}
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(p)
}
func (r *recorder) Flush() { r.flushes++ }

// Beyond maxCompressing responses are sent uncompressed. Compressors of panicked handlers are
// released.
func TestConcurrentGzipIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, bound = 600, 512
		hold := make(chan bool)
		h, err := front.New(oneHost(app(conf.Settings{Gzip: &conf.Gzip{}})),
			front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, strings.Repeat("x", 1000))
				<-hold
				panic(http.ErrAbortHandler)
			})))
		must(t, err)
		line := func() *recorder {
			w := newRecorder()
			r, _ := http.NewRequest("GET", "http://front.test/", nil)
			r.Header.Set("Accept-Encoding", "gzip")
			go func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(w, r)
			}()
			return w
		}
		for range 2 {
			var all []*recorder
			for range many {
				all = append(all, line())
			}
			synctest.Wait()
			n := 0
			for _, w := range all {
				if w.header.Get("Content-Encoding") == "gzip" {
					n++
				}
			}
			if n != bound {
				t.Errorf("%d are compressed, want %d", n, bound)
			}
			for range many {
				hold <- true
			}
			synctest.Wait()
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
