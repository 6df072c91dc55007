package report

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A browser renders the page without messages on its console.
func TestPageRendersInABrowser(t *testing.T) {
	var page bytes.Buffer
	testkit.Must(t, opened(sample(t)).WritePage(&page))
	chromium := programs.Chromium(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "run.html")
	testkit.Must(t, os.WriteFile(file, page.Bytes(), 0o600))
	dom, messages := programs.Browse(t, chromium, dir, "--dump-dom", "file://"+file)
	for _, want := range []string{
		"10,000 requests/s; half had a response within 1.14ms", "12 errors", "since due", "since sent", "TLS handshake",
		"503", "error: connect",
		"First error: status 503", "Server: &lt;b&gt;", "A Processor, 2 CPUs, 8 GB of memory", "--connections",
		"99.99%", "<path",
	} {
		testkit.Contains(t, dom, want, "the page as the browser sees it")
	}
	testkit.Lacks(t, messages, "CONSOLE", "the browser's messages")
	// All text of the charts is within them on a screen of 390 px, too.
	frame := `<body><iframe width="390" height="4000" srcdoc="` + html.EscapeString(page.String()) + `"></iframe><script>
onload = () => {
  const inner = document.querySelector('iframe').contentDocument, texts = inner.querySelectorAll('svg.plot text');
  const outside = [...texts].filter(text => {
    const t = text.getBoundingClientRect(), f = text.closest('figure').getBoundingClientRect();
    return t.left < f.left || t.right > f.right || t.bottom > f.bottom || f.right > 390;
  });
  document.body.textContent = texts.length + ' texts, outside: ' + outside.map(text => text.textContent);
};</script>`
	file = filepath.Join(dir, "frame.html")
	testkit.Must(t, os.WriteFile(file, []byte(frame), 0o600))
	dom, _ = programs.Browse(t, chromium, dir, "--dump-dom", "file://"+file)
	if !regexp.MustCompile(`<body>[1-9]\d+ texts, outside: </body>`).MatchString(dom) {
		t.Errorf("on a narrow screen: %s", dom)
	}
}
