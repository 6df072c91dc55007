package benchmark

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/trial"
)

// requestsPerCPU is the unit of a load generator's figure: requests per second of its CPU time,
// including that of its start.
const requestsPerCPU = "requests/cpu-s"

// tool is a load generator.
type tool struct {
	engine   *Engine
	program  contender.Program
	requests *regexp.Regexp // its group is the number of requests, in the output
	errors   *regexp.Regexp // matches the output if requests failed; nil if unknown
	cpus     []int          // on which it runs; nil are all
}

// findTool finds an engine's load generator.
func (w *runner) findTool(ctx context.Context, e *Engine) (*tool, error) {
	p, err := w.Tools.Find(ctx, e.Needs)
	if err != nil {
		return nil, err
	}
	all, err := contender.AllCPUs()
	if err != nil {
		return nil, err
	}
	_, cpus := trial.Layout(all, 1)
	t := &tool{engine: e, program: p, cpus: cpus}
	if t.requests, err = regexp.Compile(e.Requests); err == nil && e.Errors != "" {
		t.errors, err = regexp.Compile(e.Errors)
	}
	return t, err
}

func (t *tool) versions() []string { return t.program.Versions }

func (t *tool) has(row *TargetRow) bool { return row.Run[t.engine.Name] != "" }

// run generates the load of a row once. Its figures are of all the CPU time of its process.
func (t *tool) run(ctx context.Context, row *TargetRow, turn rowTurn) (map[string]float64, int, error) {
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
	seconds := int(math.Ceil(turn.length.Seconds())) // 0 is no limit, or an error
	fill := strings.NewReplacer("{url}", turn.url, "{seconds}", strconv.Itoa(seconds))
	words := strings.Fields(fill.Replace(row.Run[t.engine.Name]))
	c := process{dir: home, env: append(t.program.Env, "HOME="+home), cpus: t.cpus, limit: spare + slack*turn.length}
	out, err := c.run(ctx, t.program.Path, words...)
	if err != nil {
		return nil, 0, err
	}
	if t.errors != nil && t.errors.Match(out) {
		return nil, 0, fmt.Errorf("requests failed: %s", contender.Quoted(out))
	}
	m := t.requests.FindSubmatch(out)
	if m == nil {
		return nil, 0, fmt.Errorf("no number of requests in its output: %s", contender.Quoted(out))
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil || n == 0 {
		return nil, 0, fmt.Errorf("it made %s requests: %s", m[1], contender.Quoted(out))
	}
	if c.used == 0 {
		return nil, 0, errors.New("the kernel reports no CPU time of it")
	}
	return map[string]float64{requestsPerCPU: float64(n) / c.used.Seconds()}, n, nil
}

// server is the server that load generators use.
type server struct {
	built *contender.Contender
	conf  *template.Template
	cpus  []int // on which it runs; nil are all
}

// openServer prepares the experiment's server.
func (w *runner) openServer(ctx context.Context) error {
	e := w.experiment
	spec, err := contender.Find(filepath.Join(w.Root, "contenders"), e.Server)
	if err != nil {
		return err
	}
	s := new(server)
	if s.built, err = w.Tools.Prepare(ctx, spec); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if s.conf, err = e.NginxConf(); err != nil {
		return err
	}
	all, err := contender.AllCPUs()
	if err != nil {
		return err
	}
	s.cpus, _ = trial.Layout(all, 1)
	w.server = s
	return nil
}

// startServer starts the server for a row and returns its URL.
func (w *runner) startServer(ctx context.Context, row *TargetRow) (url string, stop func() error, err error) {
	stage, err := contender.NewStage(contender.StageOptions{Guard: w.Guard})
	if err != nil {
		return "", nil, err
	}
	spec, c := *w.server.built.Spec, *w.server.built
	spec.Set, c.Spec = row.Set, &spec
	r, err := stage.Start(ctx, &c,
		contender.Setting{Cores: 1, CPUs: w.server.cpus, Host: "localhost", Conf: w.server.conf}, connects)
	if err != nil {
		return "", nil, errors.Join(err, stage.Close())
	}
	return "http://" + r.Address + "/", func() error { return errors.Join(r.Stop(), stage.Close()) }, nil
}

// connects returns nil once a server accepts connections.
func connects(ctx context.Context, address string) error {
	const patience = 2 * time.Second
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err
}
