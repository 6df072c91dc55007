package engine_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// FuzzSameAsNetHTTP sends any bytes to net/http and to this engine, with one handler. Up to the
// point where this engine rejects the input, and net/http may be more lenient, both must send the
// same.
func FuzzSameAsNetHTTP(f *testing.F) {
	for _, pieces := range requests {
		f.Add(strings.ReplaceAll(strings.Join(pieces, ""), closeWrite, ""))
	}
	f.Add(browserGET)
	f.Add("0 * HTTP/1.0\r\nConnection: keep-alive 0\r\n\r\n")
	f.Add("\n0 * HTTP/1.0\nX:\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 1<<10 {
			return
		}
		pieces := []string{in, closeWrite} // net/http rejects some heads before they are complete
		handler := http.HandlerFunc(dump)
		ours := transcript(t, makers["tare"], &http.Server{Handler: handler}, pieces)
		theirs := transcript(t, makers["net/http"], &http.Server{Handler: handler}, pieces)
		if ours == theirs || excused(in, ours, theirs) {
			return
		}
		t.Errorf("request %q\n--- net/http\n%s--- tare\n%s", in, theirs, ours)
	})
}

// excused reports whether two transcripts differ only in permitted ways.
func excused(in, ours, theirs string) bool {
	if strings.Contains("\n\n"+strings.ReplaceAll(in, "\r\n", "\n"), "\n\n\n") {
		return true // an empty line before a request, which net/http skips only after a POST
	}
	if lower := strings.ToLower(in); strings.Contains(lower, "http/1.0") && strings.Contains(lower, "keep-alive") {
		// net/http parses any word of Connection as a token, for example "keep-alive 0"
		return true
	}
	open := strings.NewReplacer("close=true", "close=false", "closed=true\n", "", "closed=false\n", "")
	switch theirs, ours := open.Replace(theirs), open.Replace(ours); {
	case strings.Contains(in, "CONNECT ") && testkit.NetHTTPPrecedes(connectReleases...) &&
		theirs[:min(len("HTTP/1.1 200"), len(theirs))] == ours[:min(len("HTTP/1.1 200"), len(ours))]:
		return true
	case strings.Contains(in, "OPTIONS * ") && theirs == ours:
		return true // the body is incomplete, and the response does not show it
	}
	for _, refusal := range []string{"HTTP/1.1 400", "HTTP/1.1 414", "HTTP/1.1 417", "HTTP/1.1 431", "HTTP/1.1 501",
		"HTTP/1.1 505"} {
		if before, _, refused := strings.Cut(ours, refusal); refused && strings.HasPrefix(theirs, before) {
			return true
		}
	}
	// A malformed body: its handler ran, and the error texts differ.
	return strings.Contains(ours, "http1: ") || strings.Contains(ours, "unexpected EOF")
}

// corpus returns every raw request of the tests and the fuzzers.
func corpus(t *testing.T) map[string]string {
	all := map[string]string{"browser": browserGET}
	for name, pieces := range requests {
		all[name] = strings.ReplaceAll(strings.Join(pieces, ""), closeWrite, "")
	}
	for _, a := range heads {
		all[a.name] = a.text + smuggled
	}
	for _, a := range chunks {
		all[a.name] = chunkedPost + a.text + smuggled
	}
	for name, text := range hiddenIn {
		all["hidden in "+name] = text + get
	}
	for _, name := range fuzzed(t, "testdata/fuzz/FuzzSameAsNetHTTP", "../wire/http1/testdata/fuzz/FuzzRequest") {
		b, err := os.ReadFile(name)
		testkit.Must(t, err)
		for line := range strings.Lines(string(b)) {
			_, literal, _ := strings.Cut(strings.TrimSpace(line), "(")
			if text, err := strconv.Unquote(strings.TrimSuffix(literal, ")")); err == nil {
				all[name] = text
			}
		}
	}
	return all
}

func fuzzed(t *testing.T, dirs ...string) (names []string) {
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		testkit.Must(t, err)
		names = append(names, found...)
	}
	return names
}

// dumpCalmly is dump without what depends on when the client closes its side.
func dumpCalmly(w http.ResponseWriter, r *http.Request) {
	all := httptest.NewRecorder()
	dump(all, r)
	text, _, _ := strings.Cut(all.Body.String(), "context ")
	io.WriteString(w, text)
}

// The corpus gives the same responses by net/http and on both paths. Exceptions are listed by name.
func TestCorpusGivesSameResponsesAsNetHTTP(t *testing.T) {
	for name, in := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pieces := []string{in}
			theirs := overSockets(t, "net.Conn", makers["net/http"], http.HandlerFunc(dumpCalmly), pieces)
			for _, mode := range []string{"net.Conn", "tcp"} {
				ours := overSockets(t, mode, makers["tare"], http.HandlerFunc(dumpCalmly), pieces)
				if ours != theirs && !excused(in, ours, theirs) {
					t.Errorf("%s: request %q\n--- net/http\n%s--- tare\n%s", mode, shorten([]byte(in)), theirs, ours)
				}
			}
		})
	}
}
