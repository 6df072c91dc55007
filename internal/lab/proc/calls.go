package proc

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/tarehq/tare/internal/tracepoint"
)

// Calls counts the system calls of all processes, by process and by number. An eBPF program in the
// kernel counts them, which costs each call about 0.1 µs. It requires the right to load such a
// program, which root has on most machines, and Linux 5.6.
type Calls struct {
	counts *ebpf.Map
	link   link.Link
}

// maxCounted limits the pairs of process and call. Calls of further pairs are not counted.
const maxCounted = 64 << 10

type callKey struct{ PID, Number uint32 }

// CountCalls starts to count. Close ends it.
func CountCalls() (*Calls, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("proc: counting system calls: %w", err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "calls", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: maxCounted,
	})
	if err != nil {
		return nil, fmt.Errorf("proc: counting system calls: %w", err)
	}
	c := &Calls{counts: counts}
	if c.link, err = tracepoint.Attach("sys_enter", counting(counts)); err == nil {
		err = c.checkNamespace()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("proc: counting system calls: %w", err), c.Close())
	}
	return c, nil
}

// checkNamespace returns an error if the kernel counts this process under another PID, as in a PID
// namespace.
func (c *Calls) checkNamespace() error {
	if _, err := os.Stat("/proc/self"); err != nil { // makes a system call, which must be counted
		return err
	}
	made, err := c.Counts()
	if err == nil && len(made[os.Getpid()]) == 0 {
		err = errors.New("the kernel reports PIDs other than those of this process: run outside of the PID namespace")
	}
	return err
}

// counting returns a program that adds 1 to the map's counter of the process and the call. The
// tracepoint's arguments are the registers and the call's number.
func counting(counts *ebpf.Map) asm.Instructions {
	const key, number, one = -8, -4, -16 // on the stack
	return slices.Concat(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, 8, asm.DWord),
			asm.StoreMem(asm.RFP, number, asm.R1, asm.Word),
			asm.FnGetCurrentPidTgid.Call(),
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(asm.RFP, key, asm.R0, asm.Word),
		},
		tracepoint.Keyed(asm.FnMapLookupElem, counts, key),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "first"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Ja.Label("end"),
			asm.Mov.Imm(asm.R1, 1).WithSymbol("first"),
			asm.StoreMem(asm.RFP, one, asm.R1, asm.DWord),
		},
		tracepoint.Put(counts, key, one),
		tracepoint.End(),
	)
}

// CallCounts are numbers of calls by PID and by number of the call.
type CallCounts map[int]map[int]uint64

// Counts returns the counts since CountCalls, including ended processes; those of nil are nil. One
// lookup reads the whole map, so that all counts are of about one moment.
func (c *Calls) Counts() (CallCounts, error) {
	if c == nil {
		return nil, nil
	}
	of, times := make([]callKey, maxCounted), make([]uint64, maxCounted)
	var cursor ebpf.MapBatchCursor
	n, err := c.counts.BatchLookup(&cursor, of, times, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // ErrKeyNotExist means the end of the map
		return nil, fmt.Errorf("proc: counted system calls: %w", err)
	}
	made := make(CallCounts)
	for i, o := range of[:n] {
		if made[int(o.PID)] == nil {
			made[int(o.PID)] = make(map[int]uint64)
		}
		made[int(o.PID)][int(o.Number)] = times[i]
	}
	return made, nil
}

// Close ends the counting. c may be nil.
func (c *Calls) Close() error {
	if c == nil {
		return nil
	}
	var err error
	if c.link != nil {
		err = c.link.Close()
	}
	return errors.Join(err, c.counts.Close())
}

// callNames is generated from golang.org/x/sys/unix by go test -run TestCallNames -update.
//
//go:embed callnames_*.txt
var callNames embed.FS

// CallNames returns the names of system calls by their numbers on this architecture. It is empty
// for architectures without a table.
func CallNames() map[int]string {
	names := make(map[int]string)
	table, _ := callNames.ReadFile("callnames_" + runtime.GOARCH + ".txt")
	for line := range strings.Lines(string(table)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("proc: BUG: a line of the table of system calls is %q", line))
		}
		names[n] = name
	}
	return names
}
