//go:build unix

package engine_test

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The server's work is in proportion to what a web server sends. CPU time is compared as in
// TestWorkIsProportionalToInput.
func TestFCGIWorkIsProportionalToInput(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range fcgiReaders {
			h(w, r)
		}
		io.WriteString(w, "Hello World\n")
	})
	serveOnce := func(text string) {
		s := fcgiServer(&http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)})
		c := &oneShot{text: text, closed: make(chan bool)}
		l := &oneListener{conn: c, closed: make(chan bool)}
		served := goServe(s, l)
		<-c.closed
		s.Close()
		<-served
	}
	const n = 1000
	hello := leastCPU(func() { serveOnce(strings.Repeat(aGET("/"), n)) }) / n
	worst, worstName := 0.0, ""
	for name, text := range hostileFCGI() {
		if len(text) < 5000 {
			continue
		}
		bound := time.Duration(cpuFixed)*hello + cpuPerByte*hello*time.Duration(len(text))/time.Duration(len(aGET("/")))
		elapsed := leastCPU(func() { serveOnce(text) })
		if elapsed > bound {
			t.Errorf("%s: %v for %d bytes, want at most %v", name, elapsed, len(text), bound)
		}
		if share := float64(elapsed) / float64(bound); share > worst {
			worst, worstName = share, name
		}
	}
	t.Logf("a small request takes %v; the worst is %q, with %.0f %% of what it may take", hello, worstName, 100*worst)
}
