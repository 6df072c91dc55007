// Package tracepoint attaches eBPF programs to the kernel's tracepoints, and has the instructions
// that such programs share.
package tracepoint

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Attach attaches a program to a raw tracepoint, until the link is closed.
func Attach(tracepoint string, instructions asm.Instructions) (link.Link, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tare", Type: ebpf.RawTracepoint, License: "GPL", Instructions: instructions,
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }() // the link holds it
	return link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: program})
}

// End returns 0 from a program. Jumps may lead to its symbol "end".
func End() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()}
}

// Keyed calls a helper with a map, and a key or a value on the stack.
func Keyed(call asm.BuiltinFunc, m *ebpf.Map, key int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		call.Call(),
	}
}

// Put stores a value from the stack in a map.
func Put(m *ebpf.Map, key, value int32) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, value),
		asm.Mov.Imm(asm.R4, 0),
	}, Keyed(asm.FnMapUpdateElem, m, key))
}
