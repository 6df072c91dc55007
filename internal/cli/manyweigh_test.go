package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

// weigh runs "tare weigh" on the hub, with the load of one of the hosts.
func (m *machines) weigh(tare string, on *machine, args ...string) *sample.Run {
	m.t.Helper()
	out := filepath.Join(m.dir, "weighed")
	words := append([]string{tare, "weigh", "--on", on.address, "--out", out, "--warmup", "50ms", "--connections",
		"4"}, args...)
	c := m.command(context.Background(), words...)
	c.Env = append(c.Env, "XDG_CACHE_HOME="+filepath.Join(m.dir, "cache"))
	if text, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, text)
	}
	run, err := sample.Read(out)
	if err != nil {
		m.t.Fatal(err)
	}
	return run
}

// An agent that is lost ends the comparison with an error that names it. Nothing stays on either
// machine.
func TestWeighWithoutItsGenerator(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 1, nil)
	r := new(manyRun)
	r.cmd = m.command(context.Background(), tare, "weigh", "--on", m.hosts[0].address, "--out", "weighed", "--blocks",
		"1000",
		"--measure", "200ms", "--connections", "4", "--only", "alone", "--", "server", "-name", "lost", "-addr",
		"{addr}")
	r.cmd.Env = append(r.cmd.Env, "XDG_CACHE_HOME="+filepath.Join(m.dir, "cache"))
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.proc = testkit.Start(t, r.cmd)
	journal := filepath.Join(m.dir, "weighed", sample.JournalFile)
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if b, err := os.ReadFile(journal); err == nil && len(b) > 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("nothing was measured: %s", &r.err)
		}
	}
	m.signal(m.awaitAgent(m.hosts[0], r), syscall.SIGKILL)
	if code := r.wait(t); code != 1 || !strings.Contains(r.err.String(), m.hosts[0].address+" was lost: ") {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "server\x00-name\x00lost\x00") {
			t.Errorf("a server is left: %s", file)
		}
	}
	m.nothingLeft(m.hosts[0])
}

// The load of a comparison comes from another machine, over a network whose round trip is measured.
// The control is loaded over loopback, too.
func TestWeighOnAnotherMachine(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	const delay = 3 * time.Millisecond
	m := newMachines(t, 1, &cable{delay: delay})
	run := m.weigh(tare, m.hosts[0], "--blocks", "1", "--measure", "300ms", "--only", "alone", "--", "server",
		"-addr", "{addr}")
	link := run.Link
	if link == nil || link.ShortestTrip < 2*delay || link.RoundTrip < link.ShortestTrip || link.ToServers <= 0 ||
		link.FromServers <= 0 || link.Host != m.hosts[0].address || link.Address != m.hub.address {
		t.Fatalf("%+v", link)
	}
	seen := make(map[string]bool)
	for i := range run.Records {
		r, name := &run.Records[i], run.Records[i].Contender
		if r.Attribution != nil {
			continue
		}
		if seen[name] = true; r.Failure != "" || r.Load.Requests == 0 {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		if isFar := r.Load.Latency.Quantile(0) >= 2*delay; isFar == (name == "loopback") {
			t.Errorf("%s: a request takes %v", name, r.Load.Latency.Quantile(0))
		}
	}
	if len(seen) != 3 || !seen["loopback"] {
		t.Error(seen)
	}
	m.nothingLeft(m.hosts[0])
}
