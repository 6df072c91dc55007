package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The list refers to what exists: see also readList.
func TestListIsValid(t *testing.T) {
	all, err := readList("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, err := os.Stat(filepath.Join("applications", p.Script+".sh")); p.Script != "" && err != nil {
			t.Error(err)
		}
	}
	if checkQuotation("../..", "doc.go: no such words") == nil {
		t.Error("a quotation of nothing is accepted")
	}
}

// probeTests pass with net/http. With tare one fails, and one ends the program.
const probeTests = `package probe

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

func isTare(t *testing.T) (found bool) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, found = w.(interface{ SetSendTimeout(time.Duration) error })
	}))
	defer s.Close()
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return found
}

func TestPasses(t *testing.T) { isTare(t) }

func TestFails(t *testing.T) {
	if isTare(t) {
		t.Error("served by tare")
	}
}

func TestEndsProgram(t *testing.T) {
	if isTare(t) {
		os.Exit(3)
	}
}

func TestAfterIt(t *testing.T) { isTare(t) }
`

func TestDifferencesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds net/http")
	}
	t.Chdir("../..")
	r, err := newRunner(t.Context(), "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(r.work) })
	p := &project{Module: "probe", Limit: time.Minute, Packages: []string{"."},
		Differences: map[string]string{"on-loop TestFails": "a reason"}}
	b := &builder{p, r.overlay, &r.tool, filepath.Join(r.work, "probe"), r.work}
	if err := os.Mkdir(b.source, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module probe\n\ngo 1.26\n", "probe_test.go": probeTests} {
		if err := os.WriteFile(filepath.Join(b.source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.compareAll(t.Context(), []string{"on-loop", "transport"}, io.Discard)
	if err != nil || len(out.Problems) > 0 {
		t.Fatalf("error %v, problems %q", err, out.Problems)
	}
	want := []difference{{"on-loop", "probe", "TestEndsProgram", ""}, {"on-loop", "probe", "TestFails", "a reason"}}
	if !slices.Equal(out.Differences, want) || out.Tests != 4 || out.undocumented() != 1 {
		t.Errorf("differences %q, %d tests; want %q, 4 tests", out.Differences, out.Tests, want)
	}
}
