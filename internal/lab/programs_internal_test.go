package lab

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestParseReadsOneResult(t *testing.T) {
	const head = "goos: linux\ngoarch: amd64\npkg: example.org/m\ncpu: some\n"
	for name, test := range map[string]struct {
		output string
		want   string
		fault  string
	}{
		"one thread": {head + "BenchmarkA \t  123\t  4567 ns/op\t 8 B/op\t 9 allocs/op\nPASS\n",
			"map[B/op:8 allocs/op:9 ns/op:4567]", ""},
		"several threads": {head + "BenchmarkA-4 \t  2000000\t  0.5 ns/op\t 0 B/op\t 0 allocs/op\nPASS\n", "map[B/op:0 allocs/op:0 ns/op:0.5]", ""},
		"a unit more": {head + "BenchmarkA 1 10 ns/op 3 MB/s 1048576 B/op 1 allocs/op\nPASS\n",
			"map[B/op:1.048576e+06 MB/s:3 allocs/op:1 ns/op:10]", ""},
		"other output": {"noise\n" + head + "more: noise\nBenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\nPASS\n",
			"map[B/op:0 allocs/op:0 ns/op:10]", ""},
		"nothing":      {"", "", "no result in its output"},
		"no benchmark": {head + "PASS\n", "", "no result in its output: PASS\n    goos: linux"},
		"another": {head + "BenchmarkB 1 10 ns/op 0 B/op 0 allocs/op\n", "",
			"want one result of A, got one of B"},
		"a part": {head + "BenchmarkA/b 1 10 ns/op 0 B/op 0 allocs/op\n", "",
			"want one result of A, got one of A/b"},
		"two":         {head + "BenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\nBenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\n", "", "want one result of A"},
		"own units":   {head + "BenchmarkA 1 20 B/conn 7 p99-µs\nPASS\n", "map[B/conn:20 p99-µs:7]", ""},
		"half a line": {head + "BenchmarkA 1 10\nPASS\n", "", "no result in its output"},
	} {
		got, err := parseBenchmark([]byte(test.output), "A")
		switch {
		case test.fault != "":
			testkit.Error(t, err, test.fault, name)
		case err != nil || fmt.Sprint(got) != test.want:
			t.Errorf("%s: got %v, error %v, want %s", name, got, err, test.want)
		}
	}
}
