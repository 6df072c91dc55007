package proc

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// Calls counts system calls as they are made: of all processes, told apart by their ids, and by
// the calls' numbers. The kernel does the counting, so that it costs each call about a tenth of a
// microsecond. It takes the right to load such a program, which root has on most machines, and
// Linux 5.6.
type Calls struct {
	counts *ebpf.Map
	link   link.Link
}

// maxCounted is how many calls of processes are told apart. Those that come later are not counted.
const maxCounted = 64 << 10

// counted is what is counted together.
type counted struct{ PID, Number uint32 }

// CountCalls begins to count. Close ends it.
func CountCalls() (*Calls, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("proc: counting system calls: %w", err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Name: "calls", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: maxCounted})
	if err != nil {
		return nil, fmt.Errorf("proc: counting system calls: %w", err)
	}
	c := &Calls{counts: counts}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_calls", Type: ebpf.RawTracepoint, License: "GPL", Instructions: counting(counts.FD()),
	})
	if err == nil {
		defer func() { _ = program.Close() }()
		c.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: program})
	}
	if err == nil {
		err = c.seesUs()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("proc: counting system calls: %w", err), c.Close())
	}
	return c, nil
}

// seesUs makes sure that what the kernel counts is found under the ids that processes have here:
// in a PID namespace they have others.
func (c *Calls) seesUs() error {
	if _, err := os.Stat("/proc/self"); err != nil { // a system call, whatever comes of it
		return err
	}
	made, err := c.Counts()
	if err == nil && len(made[os.Getpid()]) == 0 {
		err = errors.New("the kernel knows processes by other ids than are seen here: run outside of the PID namespace")
	}
	return err
}

// counting adds one to what the map has for the process that makes a call. The tracepoint's
// arguments are the registers and the call's number.
func counting(fd int) asm.Instructions {
	const key, number, one = -8, -4, -16 // on the stack
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, 8, asm.DWord),
		asm.StoreMem(asm.RFP, number, asm.R1, asm.Word),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, key, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "first"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Ja.Label("end"),

		asm.Mov.Imm(asm.R1, 1).WithSymbol("first"),
		asm.StoreMem(asm.RFP, one, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, one),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),

		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}
}

// CallCounts are how many calls processes made, by their ids and by the calls' numbers.
type CallCounts map[int]map[int]uint64

// Counts returns what was counted since CountCalls, of processes that have ended, too. It asks
// the kernel once, so that all counts are of one moment.
func (c *Calls) Counts() (CallCounts, error) {
	of, times := make([]counted, maxCounted), make([]uint64, maxCounted)
	var cursor ebpf.MapBatchCursor
	n, err := c.counts.BatchLookup(&cursor, of, times, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // which says that these are all
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

// Of returns how many calls of each number the processes have made since CountCalls.
func (c *Calls) Of(processes []Process) (map[int]uint64, error) {
	counts, err := c.Counts()
	if err != nil {
		return nil, err
	}
	made := make(map[int]uint64)
	for _, p := range processes {
		for number, n := range counts[p.PID] {
			made[number] += n
		}
	}
	return made, nil
}

// Close ends the counting.
func (c *Calls) Close() error {
	var err error
	if c.link != nil {
		err = c.link.Close()
	}
	return errors.Join(err, c.counts.Close())
}
