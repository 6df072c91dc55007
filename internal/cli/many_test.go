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
	"regexp"
	"strconv"
	"strings"
	"syscall"
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
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			return "http://" + string(b) + "/"
		}
		if time.Now().After(late) {
			m.t.Fatal("the server has not started")
		}
	}
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
	f, err := os.Open(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	r, err := report.Read(f)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// samples returns the histograms of the times since due and since sent in a file of samples.
func (m *machines) samples(name string) (due, sent *hist.Histogram) {
	m.t.Helper()
	f, err := os.Open(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		m.t.Fatal(err)
	}
	due, sent = hist.New(), hist.New()
	for _, row := range rows[1:] {
		at := func(i int) time.Duration {
			n, err := strconv.ParseInt(row[i], 10, 64)
			if err != nil {
				m.t.Fatal(err)
			}
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
	for _, n := range []int{2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			m := newMachines(t, n, nil)
			url := m.serveHello()
			for range 2 { // the second time the program is there
				const requests = 4000
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
		})
	}
}

// A search works from several hosts. A run of five hosts sends what one process sends, as a
// comparison of their results shows.
func TestManyHostsFindTheMaximum(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 5, nil)
	url := m.serveHello()
	testkit.Try(t, func() error {
		find := m.load(tare, url, "-c", "8", "--find-max", "--from", "100", "--to", "200", "-d", "500ms", "--slo",
			"p99<5s", "--on", m.on())
		if code := find.wait(t); code != 0 || !strings.Contains(find.out.String(), "sustains 200 requests/s") {
			return fmt.Errorf("exit code %d: %s%s", code, &find.err, &find.out)
		}
		return nil
	})
	testkit.Try(t, func() error { // other programs that use the CPUs make the rates differ
		for name, on := range map[string][]string{"one.json": nil, "five.json": {"--on", m.on()}} {
			r := m.load(tare, append(on, url, "-c", "8", "--rate", "500", "-d", "9s", "--json="+name)...)
			if code := r.wait(t); code != 0 {
				return fmt.Errorf("exit code %d: %s", code, &r.err)
			}
		}
		both := m.load(tare, "compare", "one.json", "five.json")
		if code := both.wait(t); code != 0 || !sameRate().MatchString(both.out.String()) ||
			strings.Contains(both.out.String(), "too short") {
			return fmt.Errorf("exit code %d: %s%s", code, &both.err, &both.out)
		}
		return nil
	})
}

// sameRate matches the row of a comparison whose rates differ by at most two percent.
func sameRate() *regexp.Regexp {
	return regexp.MustCompile(`requests/s\s+\S+\s+\S+\s+(0\.9[89]|1\.0[012])`)
}

// Delay and loss between the machines change neither the start nor the sums, and the report states
// how well the clocks are known.
func TestManyHostsStartTogetherBehindSlowLinks(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	const delay = 15 * time.Millisecond
	m := newMachines(t, 2, &cable{delay: delay, loss: 0.005})
	url := m.serveHello()
	const requests = 1200
	r := m.load(tare, url, "-c", "20", "--rate", "200", "-n", fmt.Sprint(requests), "--on", m.on(), "--json=run.json",
		"--samples", "s.csv")
	if code := r.wait(t); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, &r.err, &r.out)
	}
	run := m.read("run.json")
	due, _ := m.samples("s.csv")
	if run.Requests != requests || due.Count() != requests || run.Latency.Quantile(0.01) < 2*delay ||
		run.Latency.Quantile(0.5) != due.Quantile(0.5) {
		t.Errorf("%d requests, %d samples, from %v on, medians %v and %v", run.Requests, due.Count(),
			run.Latency.Quantile(0.01), run.Latency.Quantile(0.5), due.Quantile(0.5))
	}
	for _, p := range run.Parts {
		if p.ClockError < delay || p.Lost != "" {
			t.Errorf("%s: the clocks differ by up to %v, although a round trip takes %v", p.Name, p.ClockError, 2*delay)
		}
	}
}

// An agent that is killed, terminated or frozen, or whose link is cut, is named; the run goes on
// without it, and nothing stays on any host.
func TestManyHostsContinueWithoutALostOne(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	for name, test := range map[string]struct {
		harm func(m *machines, h *machine, pid int)
		heal func(m *machines, h *machine, pid int)
		want string
	}{
		"killed": {
			func(m *machines, _ *machine, pid int) { m.signal(pid, syscall.SIGKILL) }, nil, "its process ended"},
		"terminated": {
			func(m *machines, _ *machine, pid int) { m.signal(pid, syscall.SIGTERM) }, nil, "its process ended"},
		"frozen": {
			func(m *machines, _ *machine, pid int) { m.signal(pid, syscall.SIGSTOP) },
			func(m *machines, _ *machine, pid int) { m.signal(pid, syscall.SIGCONT) }, "nothing arrived from it"},
		"cut": {
			func(m *machines, h *machine, _ int) { m.in(m.hub, m.ip, "link", "set", h.link, "down") }, nil,
			"nothing arrived from it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, 3, nil)
			url := m.serveHello()
			r := m.load(tare, url, "-c", "9", "--rate", "300", "-d", "16s", "--on", m.on(), "--on-loss", "continue",
				"--json=run.json")
			lost := m.hosts[1]
			pid := m.awaitAgent(lost, r)
			time.Sleep(3 * time.Second) // into the run; any other time is right, too
			test.harm(m, lost, pid)
			if code := r.wait(t); code != 1 {
				t.Errorf("exit code %d: %s%s", code, &r.err, &r.out)
			}
			if !strings.Contains(r.err.String(), lost.address+" was lost: "+test.want) {
				t.Errorf("stderr: %s", &r.err)
			}
			run := m.read("run.json")
			sum := uint64(0)
			for _, p := range run.Parts {
				sum += p.Requests
				if (p.Name == lost.address) != strings.Contains(p.Lost, test.want) {
					t.Errorf("%+v", p)
				}
			}
			if sum != run.Requests || len(run.Parts) != 3 || run.Parts[0].Requests < 1000 {
				t.Errorf("%d of %d requests", sum, run.Requests)
			}
			if test.heal != nil {
				test.heal(m, lost, pid)
			}
			for _, h := range m.hosts {
				m.nothingLeft(h)
			}
		})
	}
}

// awaitAgent returns the process of a host's agent once it runs.
func (m *machines) awaitAgent(h *machine, r *manyRun) int {
	m.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if pids := m.agents(h); len(pids) > 0 {
			return pids[0]
		}
		if time.Now().After(late) {
			m.t.Fatalf("no agent: %s", &r.err)
		}
	}
}

func (m *machines) signal(pid int, sig syscall.Signal) {
	m.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		m.t.Error(err)
	}
}

// A host that cannot be used ends the command before any load, with an error that names it.
func TestManyHostsReportUnusableOnes(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 1, nil)
	url := m.serveHello()
	other := filepath.Join(m.dir, "other")
	b, err := os.ReadFile(tare)
	if err != nil {
		t.Fatal(err)
	}
	b[18], b[19] = 243, 0 // the ELF header's machine: RISC-V
	if err := os.WriteFile(other, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"No route to host":        {"--on", m.on() + ",10.77.0.99"},
		"or a destination of ssh": {"--on", "-oProxyCommand=x"},
		"":                        {"--on", m.on(), "--agent-program", other}, // the right one of the two is used
	} {
		r := m.load(tare, append([]string{url, "-c", "4", "-n", "100"}, args...)...)
		if code := r.wait(t); (code == 0) != (want == "") || !strings.Contains(r.err.String(), want) {
			t.Errorf("exit code %d: %s, want %s", code, &r.err, want)
		}
	}
	m.nothingLeft(m.hosts[0])
}
