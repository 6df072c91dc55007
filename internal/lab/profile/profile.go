// Package profile holds samples of where the CPU time of a contender's processes goes, and shows
// them: flame graphs, differences, pprof files. It takes no samples (see package perf below it)
// and knows no process.
//
// # Glossary
//
//   - A sample is the stack of a thread at a tick of its CPU's clock while it runs.
//   - A stack begins with its outermost function and ends with the one that runs.
//   - The own time of a function is the samples in which it runs; its time also has those in which
//     it waits for a function that it called.
//   - An area is a part of a program or of the kernel, such as a package of Go or a system call.
package profile

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Frame is a function on a stack.
type Frame struct {
	Name   string `json:"name"`             // "" if it is unknown
	Module string `json:"module,omitempty"` // the file name of its program or library
	Kernel bool   `json:"kernel,omitempty"`
}

// Stack is a stack with the number of its samples.
type Stack struct {
	Role   string  `json:"role"` // of the process, such as nginx or application
	Frames []Frame `json:"frames"`
	Count  int     `json:"count"`
}

// Profile is the samples of one contender under one load.
type Profile struct {
	Contender string        `json:"contender"` // its name
	Title     string        `json:"title"`
	IsControl bool          `json:"isControl"`
	Condition string        `json:"condition"` // of the load, as a text
	Requests  uint64        `json:"requests"`  // while samples were taken
	Period    time.Duration `json:"periodNs"`  // CPU time between two samples
	Lost      int           `json:"lost"`      // samples that were not read in time
	Stacks    []Stack       `json:"stacks"`
	// Failure is why there are no samples; otherwise it is empty.
	Failure string `json:"failure,omitempty"`
}

// Samples returns the number of samples.
func (p *Profile) Samples() (n int) {
	for i := range p.Stacks {
		n += p.Stacks[i].Count
	}
	return n
}

// Us returns the CPU time per request that samples stand for, in microseconds.
func (p *Profile) Us(samples int) float64 {
	return float64(samples) * p.Period.Seconds() * 1e6 / float64(max(1, p.Requests))
}

// Text returns the function's name for a reader: with the module if it is unknown.
func (f *Frame) Text() string {
	switch {
	case f.Name != "":
		return f.Name
	case f.Module != "":
		return "[" + f.Module + "]"
	case f.Kernel:
		return "[kernel]"
	}
	return "[unknown]"
}

// Area returns the area to which the own time of the stack belongs.
func (s *Stack) Area() string {
	if len(s.Frames) == 0 {
		return "unknown"
	}
	leaf := &s.Frames[len(s.Frames)-1]
	switch {
	case leaf.Kernel:
		return "kernel: " + s.call()
	case isGoName(leaf.Name):
		return s.goArea(leaf)
	case leaf.Module != "":
		return leaf.Module
	}
	return "unknown"
}

// call returns the system calls in which the kernel works, or what else it does.
func (s *Stack) call() string {
	for i := range s.Frames {
		f := &s.Frames[i]
		if !f.Kernel {
			continue
		}
		// The function of a call may end in a jump, and then is not on the stack.
		for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__se_sys_", "ksys_", "__sys_"} {
			if name, ok := strings.CutPrefix(f.Name, prefix); ok {
				return callGroup(name)
			}
		}
		switch f.Name {
		case "do_writev", "do_readv", "do_futex", "do_epoll_wait":
			return callGroup(strings.TrimPrefix(f.Name, "do_"))
		}
		switch {
		case strings.Contains(f.Name, "page_fault"):
			return "page faults"
		case strings.Contains(f.Name, "sysvec_") || strings.Contains(f.Name, "common_interrupt"):
			return "interrupts"
		}
	}
	return "other work"
}

// callGroup returns the area of a system call. Servers read and write by calls of several names, so
// that without groups one name would seem to cost all and another to save it.
func callGroup(name string) string {
	switch name {
	case "read", "readv", "recvfrom", "recvmsg":
		return "reads"
	case "write", "writev", "sendto", "sendmsg":
		return "writes"
	}
	return name
}

// isGoName reports whether a symbol is one of the Go linker's: a package path, a dot, a name.
func isGoName(name string) bool {
	dot := strings.IndexByte(path.Base(name), '.')
	return dot > 0 && !strings.Contains(name, "::") && !strings.HasPrefix(name, "_Z")
}

// goPackage returns the package of a Go symbol.
func goPackage(name string) string {
	dir, base := path.Split(name)
	before, _, _ := strings.Cut(base, ".")
	return dir + before
}

// work is something that the runtime does for a program.
type work struct {
	area  string
	names []string // beginnings of functions that do it
}

// goWork returns what the runtime does. The first of which a function is on the stack counts.
func goWork() []work {
	return []work{
		{"Go: garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep",
			"runtime.gcStart", "runtime.bgscavenge", "runtime.gcDrain", "runtime.(*sweepLocked)"}},
		{"Go: memory allocation", []string{"runtime.mallocgc", "runtime.newobject", "runtime.makeslice",
			"runtime.growslice"}},
		{"Go: maps", []string{"runtime.map", "internal/runtime/maps."}},
		{"Go: scheduling and polling", []string{"runtime.schedule", "runtime.findRunnable", "runtime.mcall",
			"runtime.park_m", "runtime.gopark", "runtime.goready", "runtime.netpoll", "runtime.mstart",
			"runtime.wakep", "runtime.exitsyscall", "runtime.entersyscall", "runtime.reentersyscall",
			"runtime.sysmon", "runtime.goschedImpl"}},
	}
}

// goArea returns the area of a Go function: what the runtime does, or its package.
func (s *Stack) goArea(leaf *Frame) string {
	pkg := goPackage(leaf.Name)
	if pkg != "runtime" && !strings.HasPrefix(pkg, "internal/runtime/") {
		return pkg
	}
	for _, w := range goWork() {
		does := func(f Frame) bool {
			begins := func(name string) bool { return strings.HasPrefix(f.Name, name) }
			return !f.Kernel && slices.ContainsFunc(w.names, begins)
		}
		if slices.ContainsFunc(s.Frames, does) {
			return w.area
		}
	}
	return "Go: runtime"
}
