package trial

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// counting is a trial that counts: its attribution, and how it counts.
type counting struct {
	*sample.Attribution
	traces bool // the application traces its collector, and the kernel counts nothing
	inGo   bool // the application is a Go program
}

const (
	// countMeasure limits the time in which the kernel counts. Counts per request hardly differ
	// from second to second.
	countMeasure = 500 * time.Millisecond
	// traceMeasure limits the time in which a collector is traced. It is longer, because a
	// collector may run rarely.
	traceMeasure = time.Second
)

// Attribute carries out a trial in which the kernel counts. If the application is a Go program, it
// carries out another one in which the program traces its collector: the trace itself makes system
// calls. Records and errors are as in Run.
func (b *Bench) Attribute(ctx context.Context, c *contender.Contender, slot Slot) ([]sample.Record, error) {
	short := *b
	short.Measure = min(b.Measure, countMeasure)
	counted := &counting{Attribution: new(sample.Attribution)}
	rec, err := short.run(ctx, c, slot, counted)
	if err != nil {
		return nil, err
	}
	if rec.Failure != "" || !counted.inGo {
		return []sample.Record{rec}, nil
	}
	short.Measure = min(b.Measure, traceMeasure)
	traced, err := short.run(ctx, c, slot, &counting{Attribution: new(sample.Attribution), traces: true})
	return []sample.Record{rec, traced}, err
}

// counters hold the kernel's counters while a contender runs. A counter that the kernel rejects is
// nil, and the reason is in the attribution.
type counters struct {
	to      *counting
	running *contender.Running
	calls   *proc.Calls
	tcp     *proc.Segments
	unix    *proc.UnixBytes
	open    []io.Closer // those that are not nil
}

// count starts the counters. It returns nil if the trial counts nothing.
func count(running *contender.Running, to *counting) *counters {
	if to == nil || to.traces {
		return nil
	}
	c := &counters{to: to, running: running}
	to.Missing = nil // an earlier measurement of the same trial may have set it
	var err error
	c.calls, err = proc.CountCalls()
	c.opened(c.calls, "system calls", err)
	var ports []int
	onUnix := false
	for _, h := range c.hops() {
		ports = append(ports, h.ports...)
		onUnix = onUnix || h.onUnix()
	}
	if len(ports) > 0 {
		c.tcp, err = proc.CountSegments(ports...)
		c.opened(c.tcp, "TCP connections and segments", err)
	}
	if onUnix {
		c.unix, err = proc.CountUnixBytes()
		c.opened(c.unix, "bytes on unix sockets", err)
	}
	return c
}

// opened keeps a counter of what, or the reason why it could not be opened.
func (c *counters) opened(counter io.Closer, what string, err error) {
	if err != nil {
		c.to.Missing = append(c.to.Missing, fmt.Sprintf("%s were not counted: %v", what, err))
		return
	}
	c.open = append(c.open, counter)
}

func (c *counters) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, counter := range c.open {
		errs = append(errs, counter.Close())
	}
	return errors.Join(errs...)
}

// hopAt is a hop with its endpoints.
type hopAt struct {
	name    string
	clients string // the role that connects
	ports   []int  // of the servers; none for a unix socket
}

func (h hopAt) onUnix() bool { return len(h.ports) == 0 }

func (c *counters) hops() []hopAt {
	all := []hopAt{{sample.HopClient, sample.RoleGenerator, portsOf(c.running.Address)}}
	if behind := c.running.Behind(); len(behind) > 0 {
		all = append(all, hopAt{sample.HopApplication, c.running.FrontRole(), portsOf(behind...)})
	}
	return all
}

// portsOf returns the ports of addresses. It skips paths of sockets.
func portsOf(addresses ...string) (ports []int) {
	for _, address := range addresses {
		if filepath.IsAbs(address) {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		n, portErr := strconv.Atoi(port)
		if err := errors.Join(err, portErr); err != nil {
			panic(fmt.Sprintf("trial: BUG: a contender at %q: %v", address, err))
		}
		ports = append(ports, n)
	}
	return ports
}

// tally holds the counts at the start or the end of the measured time.
type tally struct {
	calls proc.CallCounts
	hops  []proc.Traffic // in the order of counters.hops
}

// take reads the counters. usages are the processes by role.
func (c *counters) take(usages map[string][]proc.Usage) (t tally, err error) {
	if c == nil {
		return t, nil
	}
	for _, h := range c.hops() {
		passed, err := c.passed(h, pids(usages, h.clients))
		if err != nil {
			return t, err
		}
		t.hops = append(t.hops, passed)
	}
	if c.calls != nil {
		t.calls, err = c.calls.Counts()
	}
	return t, err
}

// passed returns the traffic of a hop since the counters started.
func (c *counters) passed(h hopAt, clients []int) (all proc.Traffic, err error) {
	if h.onUnix() && c.unix != nil {
		return c.unix.Of(clients...)
	}
	if c.tcp == nil {
		return all, nil
	}
	for _, port := range h.ports {
		t, err := c.tcp.Of(port)
		if err != nil {
			return all, err
		}
		all = all.Plus(t)
	}
	return all, nil
}

// attribute fills in the counts between two looks. It includes processes that only one look found.
func (c *counters) attribute(before, after *look) {
	if c == nil {
		return
	}
	c.to.inGo = slices.ContainsFunc(pids(after.usages, contender.RoleApplication), inGo)
	if c.calls != nil {
		c.to.Calls = callsByRole(before, after)
	}
	for i, h := range c.hops() {
		hop := sample.Hop{Name: h.name, Network: "tcp", Traffic: after.counted.hops[i].Minus(before.counted.hops[i])}
		if h.onUnix() {
			hop.Network, hop.Opened = "unix", c.to.Calls[h.clients]["connect"]
		}
		if !h.onUnix() && c.tcp != nil || h.onUnix() && c.unix != nil && c.calls != nil {
			c.to.Hops = append(c.to.Hops, hop)
		}
	}
}

// inGo reports whether a process runs a Go program.
func inGo(pid int) bool {
	_, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

func callsByRole(before, after *look) map[string]map[string]uint64 {
	names := proc.CallNames()
	calls := make(map[string]map[string]uint64)
	for _, role := range append(sample.Roles(), sample.RoleGenerator) {
		both := slices.Concat(pids(before.usages, role), pids(after.usages, role))
		slices.Sort(both)
		for _, pid := range slices.Compact(both) {
			for number, n := range after.counted.calls[pid] {
				if n -= before.counted.calls[pid][number]; n == 0 {
					continue
				}
				if calls[role] == nil {
					calls[role] = make(map[string]uint64)
				}
				calls[role][callName(names, number)] += n
			}
		}
	}
	return calls
}

// pids returns the processes of a role.
func pids(usages map[string][]proc.Usage, role string) (all []int) {
	if role == sample.RoleGenerator {
		return []int{os.Getpid()}
	}
	for _, u := range usages[role] {
		all = append(all, u.PID)
	}
	return all
}

func callName(names map[int]string, number int) string {
	if name := names[number]; name != "" {
		return name
	}
	return "call " + strconv.Itoa(number)
}

// generatorCost returns the cost of this process between two looks.
func generatorCost(before, after []proc.Usage) *proc.Cost {
	costs := proc.Costs(before, after)
	if len(costs) == 0 {
		return nil
	}
	return &costs[0]
}
