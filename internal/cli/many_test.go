package cli_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load/hist"
	"github.com/tarehq/tare/load/report"
)

// serveHello starts a server on the hub and returns its URL.
func (m *machines) serveHello() string {
	m.t.Helper()
	file := filepath.Join(m.dir, "address")
	c := m.command(context.Background(), "hellounix", "tcp", m.hub.address+":8080", file)
	testkit.Start(m.t, c)
	var b []byte
	testkit.WaitFor(m.t, "the server's start", func() bool { b, _ = os.ReadFile(file); return len(b) > 0 })
	return "http://" + string(b) + "/"
}

// on returns the argument of --on for all hosts.
func (m *machines) on() string {
	var all []string
	for _, h := range m.hosts {
		all = append(all, h.address)
	}
	return strings.Join(all, ",")
}

// manyRun is a command in progress.
type manyRun struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	err  testkit.Log
	proc *testkit.Process
}

// load starts "tare load" on the hub.
func (m *machines) load(tare string, args ...string) *manyRun {
	m.t.Helper()
	r := new(manyRun)
	r.cmd = m.command(context.Background(), append([]string{tare, "load"}, args...)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.proc = testkit.Start(m.t, r.cmd)
	return r
}

// wait returns the exit code.
func (r *manyRun) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.proc.Done():
	case <-time.After(3 * time.Minute):
		t.Fatalf("tare load hangs: %s", &r.err)
	}
	if failed, ok := errors.AsType[*exec.ExitError](r.proc.Wait()); ok {
		return failed.ExitCode()
	}
	return 0
}

// read reads a JSON result.
func (m *machines) read(name string) *report.Run {
	m.t.Helper()
	f := testkit.Value(os.Open(filepath.Join(m.dir, name)))(m.t)
	defer f.Close()
	r := testkit.Value(report.Read(f))(m.t)
	return r
}

// samples returns the histograms of the times since due and since sent in a file of samples.
func (m *machines) samples(name string) (due, sent *hist.Histogram) {
	m.t.Helper()
	f := testkit.Value(os.Open(filepath.Join(m.dir, name)))(m.t)
	defer f.Close()
	rows := testkit.Value(csv.NewReader(f).ReadAll())(m.t)
	due, sent = hist.New(), hist.New()
	for _, row := range rows[1:] {
		at := func(i int) time.Duration {
			n := testkit.Value(strconv.ParseInt(row[i], 10, 64))(m.t)
			return time.Duration(n)
		}
		due.Record(at(4) - at(1))
		sent.Record(at(4) - at(2))
	}
	return due, sent
}

// Hosts that ssh reaches generate one load, whose percentiles are those of all samples. The program
// is copied once, and nothing else stays.
func TestLoadFromManyHosts(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	const n = 2
	m := newMachines(t, n)
	url := m.serveHello()
	for range 2 { // the second time the program is there
		const requests = 2000
		r := m.load(tare, url, "-c", "20", "--rate", "2000", "-n", fmt.Sprint(requests), "--on", m.on(),
			"--json=run.json", "--samples", "samples.csv", "--html", "run.html", "--csv", "run.csv")
		if code := r.wait(t); code != 0 {
			t.Fatalf("exit code %d: %s%s", code, &r.err, &r.out)
		}
		run := m.read("run.json")
		due, sent := m.samples("samples.csv")
		if run.Requests != requests || due.Count() != requests || len(run.Parts) != n ||
			run.Connections != 20 {
			t.Fatalf("%d requests, %d samples, %d parts", run.Requests, due.Count(), len(run.Parts))
		}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			if run.Latency.Quantile(q) != due.Quantile(q) || run.Service.Quantile(q) != sent.Quantile(q) {
				t.Errorf("quantile %v: %v and %v, of the samples %v and %v", q, run.Latency.Quantile(q),
					run.Service.Quantile(q), due.Quantile(q), sent.Quantile(q))
			}
		}
		for _, p := range run.Parts {
			if p.Requests != uint64(requests*p.Connections/20) || !strings.Contains(m.on(), p.Name) ||
				p.ClockError == 0 {
				t.Errorf("%+v", p)
			}
		}
		page, err := os.ReadFile(filepath.Join(m.dir, "run.html"))
		if err != nil || !bytes.Contains(page, []byte("<h2>Agents</h2>")) ||
			!bytes.Contains(page, []byte(m.hosts[n-1].address)) {
			t.Error("the page lacks the agents", err)
		}
	}
	for _, h := range m.hosts {
		m.nothingLeft(h)
	}
}
