package tare_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit/programs"
)

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

// page is a page with many subresources.
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
	done := make(chan struct{})
	s := newProgramSite(t, h2, func(w http.ResponseWriter, r *http.Request) bool {
		switch path, n, _ := strings.Cut(r.URL.Path[1:], "/"); path {
		case "page":
			io.WriteString(w, page())
		case "script":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprintf(w, "sum += %s;", n)
		case "until":
			select {
			case <-done:
			case <-r.Context().Done():
			}
		case "done":
			close(done)
		default:
			return false
		}
		return true
	})
	dom, messages := programs.Browse(t, chromium, t.TempDir(), "--ignore-certificate-errors", "--dump-dom",
		s.url+"/page")
	want := fmt.Sprintf("uploaded %d loaded %d by h2 sum %d", 1<<20, subresources, subresources*(subresources-1)/2)
	if !strings.Contains(dom, want) || !strings.Contains(dom, "refused 403 refused") ||
		regexp.MustCompile(`CONSOLE.*failed`).MatchString(messages) {
		t.Errorf("%q and the refused upload are not in\n%s\n%s", want, dom, messages)
	}
	s.wantServed()
	// The browser may open a second connection before it knows that the first one uses HTTP/2.
	if n := s.connections(); n > 2 {
		t.Errorf("%d connections", n)
	}
}
