package tare_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// programSite is a server for programs that speak HTTP/2.
type programSite struct {
	*site
	done  chan struct{} // closed when a page is complete
	mu    sync.Mutex
	by    map[string]int  // requests by version, and what has served them
	ended []string        // errors by which connections have ended
	conns map[string]bool // clients' addresses
}

func newProgramSite(t *testing.T, kind string) *programSite {
	s := &programSite{done: make(chan struct{}), by: make(map[string]int), conns: make(map[string]bool)}
	inner := &http.Server{Handler: s, HTTP2: &http.HTTP2Config{CountError: s.countError}}
	if kind == h2c {
		inner.Protocols = protocols((*http.Protocols).SetUnencryptedHTTP2)
	}
	s.site = start(t, kind, makers["tare"], inner)
	return s
}

func (s *programSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	by := r.Proto
	if testkit.RunsIn("/internal/engine/shard.") {
		by += " on a shard"
	}
	s.mu.Lock()
	s.by[by]++
	s.conns[r.RemoteAddr] = true
	s.mu.Unlock()
	switch path, n, _ := strings.Cut(r.URL.Path[1:], "/"); path {
	case "sum":
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v %s", n, sum.Sum(nil), err, r.Trailer.Get("X-Trailer"))
	case "echo":
		w.Header().Set("Trailer", "X-Length")
		w.(http.Flusher).Flush() // no Content-Length: curl reads no trailers behind a body of known length
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("X-Length", fmt.Sprint(n))
	case "refused":
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "refused") // without reading the body
	case "wait":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "page":
		io.WriteString(w, page())
	case "script":
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(w, "sum += %s;", n)
	case "until":
		select {
		case <-s.done:
		case <-r.Context().Done():
		}
	case "done":
		close(s.done)
	default:
		io.WriteString(w, r.Method+" "+r.RequestURI)
	}
}

func (s *programSite) countError(what string) {
	if strings.HasPrefix(what, "conn_") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, what)
	}
}

// wantServed fails the test if requests were not served over HTTP/2 on shards, or if the server has
// ended connections with errors.
func (s *programSite) wantServed() {
	if s.Skipped() { // without the program
		return
	}
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if by := slices.Sorted(maps.Keys(s.by)); !slices.Equal(by, []string{"HTTP/2.0 on a shard"}) || len(s.ended) > 0 {
		s.Errorf("requests were served by %q, and connections ended with %q", by, s.ended)
	}
}

func (s *programSite) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *programSite) run(env []string, path string, args ...string) string {
	s.Helper()
	c := testkit.Command(s.T, path, args...)
	c.Env = slices.Concat(os.Environ(), env)
	out, err := c.CombinedOutput()
	if err != nil {
		s.Errorf("%s %q: %v\n%.2000s", filepath.Base(path), args, err, out)
	}
	return string(out)
}

// All requests of curl, with and without TLS, must use HTTP/2 and be served on shards.
func TestHTTP2WithCurl(t *testing.T) {
	curl, env := programs.Installed(t, "curl", "curl")
	content := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	file := filepath.Join(t.TempDir(), "upload")
	testkit.WriteFile(t, file, string(content))
	sum := fmt.Sprintf("%d %x <nil>", len(content), sha256.Sum256(content))
	for _, kind := range []string{h2, h2c} {
		t.Run(kind, func(t *testing.T) {
			s := newProgramSite(t, kind)
			defer s.wantServed()
			run := func(args ...string) string {
				version := map[string]string{h2: "--http2", h2c: "--http2-prior-knowledge"}[s.kind]
				return s.run(env, curl, slices.Concat([]string{"-sSk", version}, args)...)
			}
			testkit.Contains(s, run("-w", " %{http_version} %{http_code}", s.url+"/a?b"), "GET /a?b 2 200")
			testkit.Contains(s, run("-I", s.url+"/a"), "content-length: 7", "HEAD")
			testkit.Contains(s, run("-v", "-H", "Expect: 100-continue", "-d", "hello", s.url+"/sum"), "< HTTP/2 100")
			testkit.Contains(s, run("-T", file, s.url+"/sum"), sum, "upload")
			testkit.Contains(s, run("-T", "-", s.url+"/sum", "--no-progress-meter"), "0 ", "upload of unknown length")
			testkit.Contains(s, run("-D", "-", "-d", "hello", s.url+"/echo"), "hellox-length: 5\r\n", "trailers")
			for range 5 {
				got := run("-w", " %{http_code}", "--data-binary", "@"+file, s.url+"/refused")
				testkit.Contains(s, got, "refused 403", "refused upload")
			}
			if s.kind == h2 { // with prior knowledge, curl 7.88 does not multiplex: it fails with net/http, too
				got := run("-Z", "-w", "%{http_code}\n", "-o", os.DevNull, "--data-binary", "@"+file, s.url+"/refused?[1-30]")
				testkit.Equal(s, strings.Count(got, "403\n"), 30, "parallel refused uploads")
			}
		})
	}
}

const (
	// subresources is how many files a page loads.
	subresources = 100
	// canceledRequests is how many requests the page cancels.
	canceledRequests = 1000
)

// pageScript cancels requests, of which some have a response already, uploads, and reports how the
// page was loaded. The frame "/until" keeps the page loading until then.
const pageScript = `
onload = () => document.title = "loaded";
(async () => {
	for (let n = 0; n < CANCELED; n += 50) {
		await Promise.all(Array.from({length: 50}, async (_, i) => {
			const stop = new AbortController();
			const response = fetch("/wait?" + n + i, {signal: stop.signal});
			if (i % 2) await response;
			stop.abort();
			await response.then(r => r.text()).catch(e => {
				if (e.name != "AbortError") console.error("failed", e);
			});
		}));
	}
	const upload = await fetch("/echo", {method: "POST", body: "u".repeat(1 << 20)});
	const length = (await upload.text()).length;
	const refused = await fetch("/refused", {method: "POST", body: "u".repeat(5 << 20)});
	document.body.append("refused " + refused.status + " " + await refused.text() + " ");
	const loaded = performance.getEntriesByType("resource").filter(e => e.name.includes("/script/"));
	const protocols = [...new Set(loaded.map(e => e.nextHopProtocol))];
	document.body.append("uploaded " + length + " loaded " + loaded.length + " by " + protocols + " sum " + sum);
	await fetch("/done");
})();
`

func page() string {
	var text strings.Builder
	text.WriteString("<!doctype html><title>-</title><body><iframe src=/until></iframe><script>var sum = 0</script>")
	for i := range subresources {
		fmt.Fprintf(&text, "<script src=/script/%d></script>", i)
	}
	script := strings.ReplaceAll(pageScript, "CANCELED", fmt.Sprint(canceledRequests))
	text.WriteString("<script>" + script + "</script>")
	return text.String()
}

// A browser loads a page with many subresources over one connection, cancels many requests and
// uploads.
func TestHTTP2WithChromium(t *testing.T) {
	chromium := programs.Chromium(t)
	s := newProgramSite(t, h2)
	dom, messages := programs.Browse(t, chromium, t.TempDir(), "--ignore-certificate-errors", "--dump-dom",
		s.url+"/page")
	want := fmt.Sprintf("uploaded %d loaded %d by h2 sum %d", 1<<20, subresources, subresources*(subresources-1)/2)
	if !strings.Contains(dom, want) || !strings.Contains(dom, "refused 403 refused") ||
		regexp.MustCompile(`CONSOLE.*failed`).MatchString(messages) {
		t.Errorf("%q and the refused upload are not in\n%s\n%s", want, dom, messages)
	}
	s.wantServed()
	// The browser may open a second connection before it knows that the first one uses HTTP/2.
	testkit.Between(t, s.connections(), 1, 2, "connections")
}
