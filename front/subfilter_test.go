package front_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// replaceAll returns settings that replace all occurrences of a string.
func replaceAll(from, to conf.Text) conf.Settings {
	return conf.Settings{SubFilter: &conf.SubFilter{Substitutions: []conf.Substitution{{From: from, To: to}},
		Every: true}}
}

// A flush sends everything up to a possible match, and a match across a flush is found.
func TestFlushKeepsPossibleMatch(t *testing.T) {
	next := make(chan bool)
	us := frontOf(t, replaceAll("</body>", "<hr></body>"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for _, piece := range []string{"<p>one</p", "><p></bo", "dy>"} {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	resp, err := us.client.Get("http://front.test/")
	must(t, err)
	defer resp.Body.Close()
	for _, want := range []string{"<p>one</p", "><p>", "<hr></body>"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
		next <- true
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v after it", rest, err)
	}
}

// waysToWrite are functions that write a text in different ways.
func waysToWrite(text string) map[string]func(w http.ResponseWriter) {
	inPieces := func(w http.ResponseWriter, n int, then func()) {
		for rest := text; rest != ""; then() {
			n = min(n, len(rest))
			_, _ = io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
	}
	return map[string]func(w http.ResponseWriter){
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte(text)) },
		"WriteString": func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(text)}) },
		"in pieces":   func(w http.ResponseWriter) { inPieces(w, 1009, func() {}) },
		"flushed":     func(w http.ResponseWriter) { inPieces(w, 30_011, w.(http.Flusher).Flush) },
		"with a length": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text)
		},
	}
}

// The result of replacing, adding and compressing is the same however a handler writes.
func TestFiltersDoNotDependOnWrites(t *testing.T) {
	text := strings.Repeat("<p>0123 Needle 4567</p>\n", 10_000)
	added := func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength != 0 || r.Header["Accept-Encoding"] != nil {
			t.Errorf("%s with %q", r.Method, r.Header)
		}
		fmt.Fprintf(w, "Needle of %s", r.URL.Path)
	}
	for name, write := range waysToWrite(text) {
		s := replaceAll("needle", "$uri")
		s.Gzip = &conf.Gzip{}
		us := addedTo(t, s, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			write(w)
		}, added)
		want := "Needle of /before" + strings.ReplaceAll(text, "Needle", "/page") + "Needle of /after"
		for _, coding := range []string{"identity", "gzip"} {
			got := us.do("POST", "/page", strings.NewReader("body"), "Accept-Encoding", coding)
			if plainBody(t, got) != want || (coding == "gzip") != (got.header.Get("Content-Encoding") == "gzip") {
				t.Errorf("%s, %s: %d bytes, want %d, %q", name, coding, len(plainBody(t, got)), len(want), got.header)
			}
		}
	}
}
