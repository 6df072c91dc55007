package lab_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/tracepoint"
)

// stamps are response times of a process by the kernel's clock: from the start of sendto or sendmsg
// to the end of the next recvfrom or recvmsg that received bytes on the same descriptor. A response
// in several pieces ends with its first piece. Of pipelined requests only the last one is timed.
// Calls of read and write are ignored, because runtimes use them to wake threads.
type stamps struct {
	reading *ebpf.Map // the descriptor that a thread receives on, by thread
	sent    *ebpf.Map // when a send began, by descriptor
	times   *ebpf.Map // a queue of response times
	links   []link.Link
}

// Capacities of the maps. Further threads or descriptors are not timed.
const (
	maxStampedThreads     = 1 << 10
	maxStampedDescriptors = 64 << 10
	maxStamps             = 1 << 20
)

// takeStamps starts to time the exchanges of a process. Close ends it. It requires the same right
// as proc.CountCalls, and a process outside of PID namespaces, whose PID is the kernel's.
func takeStamps(pid int) (*stamps, error) {
	s := new(stamps)
	err := rlimit.RemoveMemlock()
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&s.reading,
			ebpf.MapSpec{Name: "reading", Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: maxStampedThreads}},
		{&s.sent,
			ebpf.MapSpec{Name: "sent", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: maxStampedDescriptors}},
		{&s.times, ebpf.MapSpec{Name: "times", Type: ebpf.Queue, ValueSize: 8, MaxEntries: maxStamps}},
	} {
		if err == nil {
			*m.to, err = ebpf.NewMap(&m.spec)
		}
	}
	if err == nil {
		err = s.attach("sys_exit", s.leaving(pid))
	}
	if err == nil {
		err = s.attach("sys_enter", s.entering(pid))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("timing system calls: %w", err), s.Close())
	}
	return s, nil
}

// attach attaches a program to a tracepoint.
func (s *stamps) attach(name string, instructions asm.Instructions) error {
	l, err := tracepoint.Attach(name, instructions)
	if err == nil {
		s.links = append(s.links, l)
	}
	return err
}

// Offsets on the programs' stacks.
const (
	atDescriptor = -8
	atTime       = -16
	atThread     = -24
)

// ofProcess ends the program unless a thread of the process runs. It stores the thread's id at
// atThread.
func ofProcess(pid int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, atThread, asm.R0, asm.Word),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(pid), "end"),
	}
}

// firstArgument returns the offset of a call's first argument in the tracepoint's registers.
func firstArgument() int32 {
	if runtime.GOARCH == "arm64" {
		return 0 // x0
	}
	return 112 // rdi
}

// entering returns the program for the start of calls. It stores the time of calls that send, and
// the descriptor of calls that receive. The tracepoint's arguments are the registers and the call's
// number.
func (s *stamps) entering(pid int) asm.Instructions {
	return slices.Concat(
		ofProcess(pid),
		asm.Instructions{
			asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord),
			asm.JEq.Imm(asm.R7, unix.SYS_SENDTO, "call"),
			asm.JEq.Imm(asm.R7, unix.SYS_SENDMSG, "call"),
			asm.JEq.Imm(asm.R7, unix.SYS_RECVFROM, "call"),
			asm.JNE.Imm(asm.R7, unix.SYS_RECVMSG, "end"),

			asm.Mov.Reg(asm.R1, asm.RFP).WithSymbol("call"),
			asm.Add.Imm(asm.R1, atDescriptor),
			asm.Mov.Imm(asm.R2, 8),
			asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
			asm.Add.Imm(asm.R3, firstArgument()),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "end"),
			asm.JEq.Imm(asm.R7, unix.SYS_RECVFROM, "receive"),
			asm.JEq.Imm(asm.R7, unix.SYS_RECVMSG, "receive"),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.RFP, atTime, asm.R0, asm.DWord),
		},
		tracepoint.Put(s.sent, atDescriptor, atTime),
		asm.Instructions{
			asm.Ja.Label("end"),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("receive"),
		},
		tracepoint.Put(s.reading, atThread, atDescriptor),
		tracepoint.End(),
	)
}

// leaving returns the program for the end of calls. If a call has received bytes, it stores the
// time since the send. The tracepoint's arguments are the registers and the call's result.
func (s *stamps) leaving(pid int) asm.Instructions {
	return slices.Concat(
		ofProcess(pid),
		asm.Instructions{
			asm.FnKtimeGetNs.Call(),
			asm.Mov.Reg(asm.R7, asm.R0),
		},
		tracepoint.Keyed(asm.FnMapLookupElem, s.reading, atThread),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.StoreMem(asm.RFP, atDescriptor, asm.R1, asm.DWord),
		},
		tracepoint.Keyed(asm.FnMapDeleteElem, s.reading, atThread),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
			asm.JSLE.Imm(asm.R1, 0, "end"),
		},
		tracepoint.Keyed(asm.FnMapLookupElem, s.sent, atDescriptor),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.Sub.Reg(asm.R7, asm.R1),
		},
		tracepoint.Keyed(asm.FnMapDeleteElem, s.sent, atDescriptor),
		asm.Instructions{
			asm.StoreMem(asm.RFP, atTime, asm.R7, asm.DWord),
			asm.Mov.Imm(asm.R3, 0),
		},
		tracepoint.Keyed(asm.FnMapPushElem, s.times, atTime),
		tracepoint.End(),
	)
}

// Times ends the timing and returns the times in ascending order.
func (s *stamps) Times() ([]time.Duration, error) {
	if err := s.detach(); err != nil {
		return nil, err
	}
	var times []time.Duration
	for {
		var t time.Duration
		err := s.times.LookupAndDelete(nil, &t)
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			slices.Sort(times)
			return times, nil
		case err != nil:
			return nil, fmt.Errorf("timed system calls: %w", err)
		case len(times) == maxStamps-1:
			return nil, fmt.Errorf("timed system calls: more than %d; time fewer", maxStamps-1)
		}
		times = append(times, t)
	}
}

func (s *stamps) detach() error {
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	s.links = nil
	return errors.Join(errs...)
}

// Close ends the timing and discards the times.
func (s *stamps) Close() error {
	errs := []error{s.detach()}
	for _, m := range []*ebpf.Map{s.reading, s.sent, s.times} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// Each exchange on a socket is timed, from the start of the call that sends to the end of the call
// that receives. Calls that receive nothing are ignored.
func TestStampsTimeExchanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("timing system calls requires root")
	}
	s, err := takeStamps(os.Getpid())
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // containers and locked-down kernels do not allow it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	here, there := pair[0], pair[1]
	defer syscall.Close(here)
	defer syscall.Close(there)
	const exchanges, nap = 20, 2 * time.Millisecond
	buffer := make([]byte, 10)
	var longest time.Duration
	for range exchanges {
		began := time.Now()
		if err := syscall.Sendto(here, []byte("request"), 0, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := syscall.Recvfrom(here, buffer, syscall.MSG_DONTWAIT); err != syscall.EAGAIN {
			t.Fatal(err)
		}
		time.Sleep(nap)
		if _, err := syscall.Write(there, []byte("response")); err != nil { // write is ignored
			t.Fatal(err)
		}
		if _, _, err := syscall.Recvfrom(here, buffer, 0); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		if _, err := syscall.Read(there, buffer); err != nil {
			t.Fatal(err)
		}
	}
	times, err := s.Times()
	if err != nil {
		t.Fatal(err)
	}
	if len(times) != exchanges {
		t.Fatalf("%d times, want %d: %v", len(times), exchanges, times)
	}
	if times[0] < nap || times[exchanges-1] > longest {
		t.Errorf("from %v to %v, want from %v to %v", times[0], times[exchanges-1], nap, longest)
	}
}
