package engine_test

import (
	"net/http"
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
