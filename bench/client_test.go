package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit/programs"
)

// clientRounds is the number of rounds of a client's case. There are many cases, and rounds are
// short.
const clientRounds = 9

// clients returns the cases of clients, each with tare's server: the benchmarks of fasthttp, and
// the costs of idle and shared connections.
func clients() []scenario {
	const third = 1.0 / 3 // three times as fast
	rows := []struct {
		name, benchmark string
		vsNetHTTP       bound
	}{
		{"at-once", "DoFastServer", bound{aim: third}},
		{"tcp-1", "GetEndToEnd1TCP", bound{aim: even - better}},
		{"tcp-10", "GetEndToEnd10TCP", bound{aim: even - better}},
		{"tcp-100", "GetEndToEnd100TCP", bound{aim: even - better}},
		{"inmemory-1", "GetEndToEnd1Inmemory", bound{require: third}},
		{"inmemory-10", "GetEndToEnd10Inmemory", bound{require: third}},
		{"inmemory-100", "GetEndToEnd100Inmemory", bound{require: third}},
		{"inmemory-1000", "GetEndToEnd1000Inmemory", bound{require: third}},
	}
	procs := []int{1, 2, 4}
	all := group{name: "client", cases: len(rows) * len(procs), times: 1.15,
		require: len(rows) * len(procs) / 2, aim: len(rows) * len(procs)}
	var cases []scenario
	for _, n := range procs {
		for _, r := range rows {
			r.vsNetHTTP.of, r.vsNetHTTP.than = spent, netHTTP
			cases = append(cases, scenario{
				name: fmt.Sprintf("client-p%d-%s", n, r.name), measure: pair{benchmark: r.benchmark, procs: n}.measure,
				rounds: clientRounds, group: all,
				bounds: []bound{r.vsNetHTTP, {of: spent, than: fastHTTP, aim: all.times}},
			})
		}
	}
	return append(cases,
		scenario{name: "client-idle-10000", measure: pair{benchmark: "Idle", once: true}.measure, rounds: 6,
			large: true, bounds: []bound{{of: memory, than: netHTTP, aim: even - better},
				{of: memory, than: fastHTTP, aim: even}}},
		scenario{name: "client-shared-100", measure: pair{benchmark: "Shared"}.measure, rounds: clientRounds,
			bounds: []bound{{of: p99, than: netHTTP, require: even, aim: even - better}, {of: p99, than: fastHTTP},
				{of: p50, than: netHTTP}}},
	)
}

// pair is a benchmark in which each client has one server.
type pair struct {
	benchmark string
	procs     int  // GOMAXPROCS; 0 is all processors
	once      bool // runs once, for as long as it takes
}

// measure runs a client's benchmark in a process.
func (p pair) measure(f *field, client string) (turn, error) {
	// A busy machine needs two minutes for ten thousand connections.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	length := f.inMemFor.String()
	if p.once {
		length = "1x"
	}
	c := exec.CommandContext(ctx, f.pairs, "-test.run", "^$", "-test.bench", "^Benchmark"+p.benchmark+"$/^"+client+"$",
		"-test.benchtime", length)
	c.Dir = filepath.Dir(f.pairs)
	if c.Env = os.Environ(); p.procs > 0 {
		c.Env = append(c.Env, "GOMAXPROCS="+strconv.Itoa(p.procs))
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s", p.benchmark, client, err, out)
	}
	return figuresOf(string(out))
}

// figuresOf parses the result of a benchmark: a name, a count, and figures with units.
func figuresOf(output string) (turn, error) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		values := make(turn)
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%w in %q", err, line)
			}
			unit := fields[i+1]
			if unit == "ns/op" {
				unit = spent
			}
			values[unit] = v
		}
		return values, nil
	}
	return nil, errors.New("the benchmark printed no result:\n" + output)
}

// prepareClients builds the benchmarks of clients.
func (f *field) prepareClients(t testing.TB) {
	t.Helper()
	f.pairs = filepath.Join(t.TempDir(), "pairs")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "go", "test", "-c", "-o", f.pairs, "./pairs")
	c.Dir = filepath.Join(programs.Root(t), "contenders", "engines")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
