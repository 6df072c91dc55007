package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestListIsValid(t *testing.T) {
	if _, err := readList("../.."); err != nil {
		t.Error(err)
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
	r, err := newRunner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(r.work) })
	folder := filepath.Join(r.goroot, "src", "probe")
	err = errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "a_test.go"), []byte(probeTests), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	b := r.newBuilder(&project{Module: "std", Limit: time.Minute, Packages: []string{"probe"},
		Modes: []string{"on-loop", "transport"}, Differences: map[string]string{"on-loop TestFails": "a reason"}})
	b.compareAll(t.Context())
	want := []difference{{"on-loop", "probe", "TestEndsProgram", ""}, {"on-loop", "probe", "TestFails", "a reason"}}
	if out := b.out; !slices.Equal(out.Differences, want) || out.Tests != 3 || out.Undocumented != 1 || out.Problem != "" {
		t.Errorf("result %+v; want 3 tests and the differences %q", out, want)
	}
}
