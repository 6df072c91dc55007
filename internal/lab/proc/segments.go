package proc

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/tracepoint"
)

// Segments counts TCP traffic on the loopback interface by the servers' ports. An eBPF program is
// attached to a packet socket, counts each packet and drops it. It requires the rights to load such
// a program and to open such a socket.
type Segments struct {
	counts *ebpf.Map
	socket int
}

// Traffic is the traffic between a server and its clients.
type Traffic struct {
	Opened uint64 `json:"opened"` // connections that the server accepted
	To     Flow   `json:"to"`     // the server
	From   Flow   `json:"from"`
}

// Flow is the traffic in one direction.
type Flow struct {
	// Segments counts TCP segments, including those that only acknowledge. On loopback a segment
	// has up to 64 KB. For unix sockets it counts the calls that send.
	Segments uint64 `json:"segments"`
	Bytes    uint64 `json:"bytes"` // without headers of TCP and IP
}

// Minus returns the traffic since before.
func (t Traffic) Minus(before Traffic) Traffic {
	return Traffic{t.Opened - before.Opened, t.To.minus(before.To), t.From.minus(before.From)}
}

// Plus returns the sum of two traffics.
func (t Traffic) Plus(other Traffic) Traffic {
	return Traffic{t.Opened + other.Opened, t.To.plus(other.To), t.From.plus(other.From)}
}

func (f Flow) plus(other Flow) Flow { return Flow{f.Segments + other.Segments, f.Bytes + other.Bytes} }

func (f Flow) minus(before Flow) Flow {
	return Flow{f.Segments - before.Segments, f.Bytes - before.Bytes}
}

// Offsets of the fields of Traffic, which the eBPF program writes.
const (
	atOpened = 8 * iota
	atToSegments
	atToBytes
	atFromSegments
	atFromBytes
	trafficSize
)

// CountSegments starts to count the traffic of servers on ports of 127.0.0.0/8. Close ends it.
func CountSegments(ports ...int) (*Segments, error) {
	s := &Segments{socket: -1}
	if err := s.begin(ports); err != nil {
		return nil, errors.Join(fmt.Errorf("proc: counting segments: %w", err), s.Close())
	}
	return s, nil
}

func (s *Segments) begin(ports []int) error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	var err error
	s.counts, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "segments", Type: ebpf.Hash, KeySize: 4, ValueSize: trafficSize, MaxEntries: uint32(max(1, len(ports))),
	})
	if err != nil {
		return err
	}
	for _, port := range ports {
		if err := s.counts.Put(uint32(port), Traffic{}); err != nil {
			return err
		}
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_segments", Type: ebpf.SocketFilter, License: "GPL", Instructions: countingSegments(s.counts),
	})
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	return s.listen(program)
}

// listen attaches the program to the loopback interface.
func (s *Segments) listen(program *ebpf.Program) error {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	if s.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, program.FD()); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	const ip = unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8 // in network order
	return os.NewSyscallError("bind",
		unix.Bind(s.socket, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: loopback.Index}))
}

// Offsets in packet headers, and on the program's stack.
const (
	ipLength, ipProtocol       = 0, 9 // ipLength in 32-bit words, in the lower half of the byte
	tcpFrom, tcpTo             = 0, 2
	tcpLength, tcpFlags        = 12, 13 // tcpLength in 32-bit words, in the upper half of the byte
	tcpSYN, tcpACK             = 0x02, 0x10
	skbLength, skbType         = 0, 4
	readOfIP, readOfTCP        = 10, 16
	atIP, atTCP, atPort  int32 = -32, -16 - 8, -4
	packetOutgoing             = 4 // PACKET_OUTGOING: loopback shows each packet twice, outgoing and incoming
)

// countingSegments returns a program that looks for a counted port in a packet, which begins with
// the IP header, and adds to the map's counters of that port. It drops all packets.
func countingSegments(counts *ebpf.Map) asm.Instructions {
	port := func(at int32) asm.Instructions { // looks up the counters of a port
		return append(asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, int16(atTCP+at), asm.Half),
			asm.HostTo(asm.BE, asm.R1, asm.Half),
			asm.StoreMem(asm.RFP, int16(atPort), asm.R1, asm.Word),
		}, tracepoint.Keyed(asm.FnMapLookupElem, counts, atPort)...)
	}
	all := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R1, asm.R6, skbType, asm.Word),
		asm.JEq.Imm(asm.R1, packetOutgoing, "end"),
		asm.Mov.Imm(asm.R7, 0),
	}
	all = append(all, readPacket(atIP, readOfIP)...)
	all = append(all,
		asm.LoadMem(asm.R1, asm.RFP, int16(atIP+ipProtocol), asm.Byte),
		asm.JNE.Imm(asm.R1, unix.IPPROTO_TCP, "end"),
		asm.LoadMem(asm.R7, asm.RFP, int16(atIP+ipLength), asm.Byte),
		asm.And.Imm(asm.R7, 0x0f),
		asm.LSh.Imm(asm.R7, 2),
	)
	all = append(all, readPacket(atTCP, readOfTCP)...)
	all = append(all,
		asm.LoadMem(asm.R8, asm.R6, skbLength, asm.Word), // becomes the length without both headers
		asm.Sub.Reg(asm.R8, asm.R7),
		asm.LoadMem(asm.R1, asm.RFP, int16(atTCP+tcpLength), asm.Byte),
		asm.RSh.Imm(asm.R1, 4),
		asm.LSh.Imm(asm.R1, 2),
		asm.Sub.Reg(asm.R8, asm.R1),
		asm.Mov.Imm(asm.R9, 1),
	)
	all = append(all, port(tcpTo)...)
	all = append(all,
		asm.JEq.Imm(asm.R0, 0, "from"),
		asm.Add.Imm(asm.R0, atToSegments),
		asm.Ja.Label("count"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("from"),
	)
	all = append(all, port(tcpFrom)...)
	return append(all,
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.RFP, int16(atTCP+tcpFlags), asm.Byte),
		asm.And.Imm(asm.R1, tcpSYN|tcpACK),
		asm.JNE.Imm(asm.R1, tcpSYN|tcpACK, "opened"),
		asm.StoreXAdd(asm.R0, asm.R9, asm.DWord),
		asm.Add.Imm(asm.R0, atFromSegments).WithSymbol("opened"),
		asm.StoreXAdd(asm.R0, asm.R9, asm.DWord).WithSymbol("count"),
		asm.Add.Imm(asm.R0, atToBytes-atToSegments),
		asm.StoreXAdd(asm.R0, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	)
}

// readPacket copies bytes of the packet, from offset R7 on, to the stack, or ends the program.
func readPacket(to, n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, to),
		asm.Mov.Imm(asm.R4, n),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
	}
}

// Of returns the traffic of the server on a port since CountSegments.
func (s *Segments) Of(port int) (t Traffic, err error) {
	if err = s.counts.Lookup(uint32(port), &t); err != nil {
		return t, fmt.Errorf("proc: counted segments of port %d: %w", port, err)
	}
	return t, nil
}

// Close ends the counting.
func (s *Segments) Close() error {
	var errs []error
	if s.socket >= 0 {
		errs = append(errs, os.NewSyscallError("close", unix.Close(s.socket)))
		s.socket = -1
	}
	if s.counts != nil {
		errs = append(errs, s.counts.Close())
	}
	return errors.Join(errs...)
}
