package benchmark

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/trial"
)

// requestsPerCPU is the unit of a load generator's figure: requests per second of its CPU time,
// including that of its start.
const requestsPerCPU = "requests/cpu-s"

func findTool(ctx context.Context, tools *contender.Tools, e *Engine) (*Program, error) {
	found, err := tools.Find(ctx, e.Needs)
	if err != nil {
		return nil, err
	}
	all, err := contender.AllCPUs()
	if err != nil {
		return nil, err
	}
	_, cpus := trial.Layout(all, 1)
	p := &Program{
		engine: e, path: found.Bin, env: found.Env, cpus: cpus, Versions: []string{found.Version},
	}
	if p.requests, err = regexp.Compile(e.Requests); err == nil && e.Errors != "" {
		p.errors, err = regexp.Compile(e.Errors)
	}
	return p, err
}

// generate generates the load of a row once. Its figures are of all the CPU time of its process.
func (p *Program) generate(ctx context.Context, row *Row, turn Turn) (map[string]float64, int, error) {
	home, err := os.MkdirTemp("", "tare-home-") // a generator may read and write files of its user
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(home)
	const siege = ".siege/siege.conf" // without this file siege makes one and reports that
	if err := errors.Join(os.Mkdir(filepath.Join(home, filepath.Dir(siege)), 0o700),
		os.WriteFile(filepath.Join(home, siege), nil, 0o600)); err != nil {
		return nil, 0, err
	}
	seconds := int(math.Ceil(turn.Length.Seconds())) // 0 is no limit, or an error
	fill := strings.NewReplacer("{url}", turn.URL, "{seconds}", strconv.Itoa(seconds))
	words := strings.Fields(fill.Replace(row.Run[p.engine.Name]))
	c := contender.Command{
		Dir: home, Env: append(slices.Clip(p.env), "HOME="+home), CPUs: p.cpus, Limit: spare + slack*turn.Length,
	}
	out, err := c.Run(ctx, p.path, words...)
	if err != nil {
		return nil, 0, err
	}
	if p.errors != nil && p.errors.Match(out) {
		return nil, 0, fmt.Errorf("requests failed: %s", contender.Quoted(out))
	}
	m := p.requests.FindSubmatch(out)
	if m == nil {
		return nil, 0, fmt.Errorf("no number of requests in its output: %s", contender.Quoted(out))
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil || n == 0 {
		return nil, 0, fmt.Errorf("it made %s requests: %s", m[1], contender.Quoted(out))
	}
	if c.Used == 0 {
		return nil, 0, errors.New("the kernel reports no CPU time of it")
	}
	return map[string]float64{requestsPerCPU: float64(n) / c.Used.Seconds()}, n, nil
}
