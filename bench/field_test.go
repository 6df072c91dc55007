package bench_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// field holds the built programs and the durations of turns.
type field struct {
	inMemory string // path of the program with workloads in memory
	pairs    string // path of the program with the clients' benchmarks
	rounds   int
	inMemFor time.Duration // of a workload in memory
	short    bool
}

func newField(t testing.TB, short bool) *field {
	t.Helper()
	f := &field{short: short, rounds: 15, inMemFor: 400 * time.Millisecond}
	if short {
		f.rounds, f.inMemFor = 1, 40*time.Millisecond
	}
	tools := &contender.Tools{Cache: t.TempDir()}
	c, err := tools.Prepare(context.Background(), &contender.Spec{
		Name: "inmemory", Title: "inmemory", Dir: filepath.Join(programs.Root(t), "contenders", "cases", "inmemory"),
		Protocol: contender.HTTP, Needs: []string{contender.Go}, Build: "go build -o {bin} .", Run: "{bin} {port}",
	})
	if err != nil {
		t.Fatal(err)
	}
	f.inMemory = c.Bin
	f.prepareClients(t)
	return f
}

// roundsOf returns the number of rounds of a case.
func (f *field) roundsOf(s scenario) int {
	switch {
	case f.short && s.large:
		return 1
	case f.short || s.rounds == 0:
		return f.rounds
	}
	return s.rounds
}

func isShort() bool { return os.Getenv("TARE_BENCH") == "short" }
