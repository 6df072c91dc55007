package tare_test

import (
	"go/version"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The tests of net/http's server pass with tare, over HTTP/1.1 and HTTP/2, with TLS and without, on
// shards and on the goroutine path. Those that fail with net/http itself do not count: some fail in
// the modes that were added, and some depend on what the port replaces.
func TestServerTestsOfNetHTTPPass(t *testing.T) {
	testkit.Long(t, "it runs net/http's tests")
	v := testkit.Release()
	if isKnown := slices.Contains([]string{"go1.26", "go1.27"}, version.Lang(v)); !isKnown ||
		testkit.NetHTTPPrecedes("go1.26.8", "go1.27.0") {
		t.Skipf("the port is of the tests from Go 1.26.8 to 1.27, this is %s", v)
	}
	program, dir := buildPort(t)
	theirs, differences := runPort(t, program, dir, "net/http"), portDifferences()
	for _, kind := range []string{"shards", "goroutines"} {
		t.Run(kind, func(t *testing.T) {
			ours := runPort(t, program, dir, kind)
			compared := 0
			for _, name := range slices.Sorted(maps.Keys(theirs)) {
				if theirs[name].status != passed {
					continue
				}
				compared++
				why, fails := differences[name], ours[name].status != passed
				switch {
				case fails && why == "":
					checkAlone(t, program, dir, kind, name)
				case !fails && why != "":
					t.Errorf("%s: no longer differs: %s", name, why)
				}
			}
			if t.Logf("%d tests were compared", compared); compared < leastPorted {
				t.Errorf("only %d tests were compared", compared)
			}
		})
	}
}

const (
	leastPorted = 500
	passed      = "PASS"
	crashed     = "crash"
)

// portResult is the result of a test or a subtest.
type portResult struct {
	status string // passed, FAIL, SKIP or crashed
	output string // of the test's process, unless it has passed
}

// checkAlone runs a ported test that has failed among others by itself, and this run decides: some
// depend on how fast the machine is.
func checkAlone(t *testing.T, program, dir, kind, name string) {
	t.Helper()
	test, _, _ := strings.Cut(name, "/")
	if r := runPortedTest(t, program, dir, kind, test, "")[name]; r.status != passed {
		t.Errorf("%s: %s\n%s", name, r.status, r.output)
	}
}

// runPort runs each test in a process of its own, because some panic. It returns the results by
// name.
func runPort(t *testing.T, program, dir, kind string) map[string]portResult {
	t.Helper()
	list, err := testkit.Command(t, program, "-test.list", "^Test").Output()
	testkit.Must(t, err)
	all := make(map[string]portResult)
	var mu sync.Mutex
	var running sync.WaitGroup
	turns := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for _, test := range strings.Fields(string(list)) {
		running.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results, modes := make(map[string]portResult), steadyModes()[test]
			if len(modes) == 0 {
				results = runPortedTest(t, program, dir, kind, test, "")
				if results[test].status == crashed {
					modes = []string{"h1", "https1", "h2", "h2unencrypted"}
				}
			}
			for _, mode := range modes {
				maps.Copy(results, runPortedTest(t, program, dir, kind, test, mode))
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, results)
		})
	}
	running.Wait()
	return all
}

// steadyModes returns the modes of tests that hang in another one with every server, also with
// net/http's, unless the machine is busy.
func steadyModes() map[string][]string {
	return map[string][]string{"TestTransportAndServerSharedBodyRace": {"h1", "https1", "h2"}}
}

// runPortedTest runs a test, in one mode or in all.
func runPortedTest(t *testing.T, program, dir, kind, test, mode string) map[string]portResult {
	t.Helper()
	c := testkit.Command(t, program, "-test.v", "-test.short", "-test.timeout", portedTestTime,
		"-test.run", "^"+test+"$")
	c.Dir = dir
	c.Env = append(os.Environ(), "TARE_NETHTTP="+kind, "TARE_MODE="+mode)
	out, _ := c.CombinedOutput()
	results := make(map[string]portResult)
	for _, m := range regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(`).FindAllSubmatch(out, -1) {
		r := portResult{status: string(m[1])}
		if r.status == "FAIL" {
			r.output = string(out)
		}
		results[string(m[2])] = r
	}
	if _, ended := results[test]; !ended {
		name := test
		if mode != "" {
			name = filepath.Join(test, mode)
		}
		results[name] = portResult{crashed, string(out)}
	}
	return results
}

// portedTestTime is how long a test may take.
const portedTestTime = "15s"
