package proc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/tracepoint"
)

// UnixBytes counts what processes send and receive on unix sockets, by any system call. It requires
// the same right as CountCalls, and Linux 6.3.
type UnixBytes struct {
	sent, received *ebpf.Map
	links          []link.Link
}

// maxUnixProcesses limits the number of processes that use unix sockets. Further ones are not
// counted.
const maxUnixProcesses = 4 << 10

// CountUnixBytes starts to count. Close ends it.
func CountUnixBytes() (*UnixBytes, error) {
	u := new(UnixBytes)
	if err := u.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("proc: counting bytes on unix sockets: %w", err), u.Close())
	}
	return u, nil
}

func (u *UnixBytes) begin() error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	for _, side := range []struct {
		to         **ebpf.Map
		tracepoint string
	}{{&u.sent, "sock_send_length"}, {&u.received, "sock_recv_length"}} {
		m, err := ebpf.NewMap(&ebpf.MapSpec{
			Name: "unix_bytes", Type: ebpf.Hash, KeySize: 4, ValueSize: 16, MaxEntries: maxUnixProcesses,
		})
		if err != nil {
			return err
		}
		*side.to = m
		l, err := tracepoint.Attach(side.tracepoint, countingUnix(m))
		if err != nil {
			return fmt.Errorf("%s: %w", side.tracepoint, err)
		}
		u.links = append(u.links, l)
	}
	return nil
}

// countingUnix returns a program that adds to the map's counters of the process. The tracepoint's
// arguments are the socket, the call's result, and its flags.
func countingUnix(m *ebpf.Map) asm.Instructions {
	const (
		familyInSock                    = 16 // skc_family in struct sock_common, unchanged since Linux 3.8
		family, process, bytes, segment = -8, -16, -24, -32
	)
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord),
		asm.LSh.Imm(asm.R7, 32), // sign-extends the int
		asm.ArSh.Imm(asm.R7, 32),
		asm.JSLE.Imm(asm.R7, 0, "end"),
		asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord),
		asm.And.Imm(asm.R1, unix.MSG_PEEK),
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, family),
		asm.Mov.Imm(asm.R2, 2),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
		asm.Add.Imm(asm.R3, familyInSock),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.RFP, family, asm.Half),
		asm.JNE.Imm(asm.R1, unix.AF_UNIX, "end"),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, process, asm.R0, asm.Word),
	}, tracepoint.Keyed(asm.FnMapLookupElem, m, process), asm.Instructions{
		asm.JEq.Imm(asm.R0, 0, "first"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R7, asm.DWord),
		asm.Ja.Label("end"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("first"),
		asm.StoreMem(asm.RFP, segment, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, bytes, asm.R7, asm.DWord),
	}, tracepoint.Put(m, process, segment), tracepoint.End())
}

// Of returns what the processes have sent and received on unix sockets since CountUnixBytes. The
// processes are the clients: To is what they sent.
func (u *UnixBytes) Of(pids ...int) (t Traffic, err error) {
	for _, side := range []struct {
		m  *ebpf.Map
		to *Flow
	}{{u.sent, &t.To}, {u.received, &t.From}} {
		for _, pid := range pids {
			var f Flow
			err := side.m.Lookup(uint32(pid), &f)
			if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return t, fmt.Errorf("proc: counted bytes on unix sockets: %w", err)
			}
			side.to.Segments += f.Segments
			side.to.Bytes += f.Bytes
		}
	}
	return t, nil
}

// Close ends the counting.
func (u *UnixBytes) Close() error {
	var errs []error
	for _, l := range u.links {
		errs = append(errs, l.Close())
	}
	u.links = nil
	for _, m := range []*ebpf.Map{u.sent, u.received} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
