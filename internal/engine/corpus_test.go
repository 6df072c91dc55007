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
