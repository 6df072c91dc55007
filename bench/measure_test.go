package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// turn holds the figures of one turn of a server, by metric.
type turn map[string]float64

// workload is a workload in memory.
type workload struct {
	procs             int
	method            string
	requests, clients int
}

func (w workload) measure(f *field, server string) (turn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, f.inMemory, "-server", server, "-method", w.method,
		"-requests", strconv.Itoa(w.requests), "-clients", strconv.Itoa(w.clients), "-for", f.inMemFor.String())
	c.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", w.procs))
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	figure, _, _ := strings.Cut(string(out), " ")
	ns, err := strconv.ParseFloat(figure, 64)
	return turn{spent: ns}, err
}
