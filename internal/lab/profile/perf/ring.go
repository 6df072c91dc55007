package perf

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// positions returns where the kernel writes next and where this process reads next, in bytes since
// the start. They are in the page that the ring buffer begins with.
func (r *ring) positions() (head, tail *uint64) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	return &page.Data_head, &page.Data_tail
}

// load reads a position after everything that the kernel wrote before it.
func load(position *uint64) uint64 { return atomic.LoadUint64(position) }

// store lets the kernel write where this process has read.
func store(position *uint64, v uint64) { atomic.StoreUint64(position, v) }
