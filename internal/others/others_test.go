package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

func TestListIsValid(t *testing.T) {
	_, err := readList("../..")
	testkit.Must(t, err)
	testkit.Error(t, checkQuotation("../..", "doc.go: no such words"), "does not contain")
}

// probeTests pass with net/http. With tare one ends the program, and two fail, of which one fails
// alone with both.
const probeTests = `package probe

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

func isTare() (found bool) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, found = w.(interface{ SetSendTimeout(time.Duration) error })
	}))
	defer s.Close()
	_, _ = s.Client().Get(s.URL)
	return found
}

func TestEndsProgram(t *testing.T) {
	if isTare() {
		os.Exit(3)
	}
}

var isFirst = true

func TestFails(t *testing.T) {
	isFirst = false
	if isTare() {
		t.Error("served by tare")
	}
}

func TestIsSecond(t *testing.T) {
	if isFirst || isTare() {
		t.Error("served by tare")
	}
}
`

func TestDifferencesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds net/http")
	}
	t.Chdir("../..")
	r := testkit.Value(newRunner(t.Context()))(t)
	t.Cleanup(func() { os.RemoveAll(r.work) })
	testkit.WriteFile(t, filepath.Join(r.goroot, "src", "probe", "a_test.go"), probeTests)
	b := r.newBuilder(&project{Module: "std", Limit: time.Minute, Packages: []string{"probe"},
		Modes: []string{"on-loop", "transport"}, Differences: map[string]string{"on-loop Test(Fails|IsSecond)": "a reason"}})
	b.compareAll(t.Context())
	want := []difference{{"on-loop", "probe", "TestEndsProgram", ""}, {"on-loop", "probe", "TestFails", "a reason"},
		{"on-loop", "probe", "TestIsSecond", "a reason"}}
	if out := b.out; !slices.Equal(out.Differences, want) || out.Tests != 3 || out.Undocumented != 1 || out.Problem != "" {
		t.Errorf("result %+v; want 3 tests and the differences %q", out, want)
	}
}
