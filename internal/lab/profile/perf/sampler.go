// Package perf samples the stacks of running threads, in programs and in the kernel, by Linux's
// perf events. It uses the software event cpu-clock, because virtual machines often have no
// counters of the hardware.
//
// A Sampler has an event and a ring buffer for each CPU (perf_event_open(2)). The kernel follows
// frame pointers to find callers. Programs in Go have them. C programs of distributions have none:
// of these a stack has only the function that runs. A function without a frame of its own hides the
// one that called it.
//
// # Glossary
//
//   - A chain is a stack as the kernel stores it: addresses, the innermost first.
//   - An image is the code of a program or library, with its symbols.
package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// Period is the CPU time between two samples. It has no common divisor with the tick of the
	// kernel, 1 to 10 ms, so that samples do not follow it.
	Period = 997 * time.Microsecond
	// ringPages is the size of a ring buffer in pages; a power of 2. It holds samples of a tenth
	// of a second, even if all stacks have the greatest depth.
	ringPages = 128
	// readEvery is the time between two looks at the ring buffers.
	readEvery = 20 * time.Millisecond
)

// Sampler takes samples of all processes on some CPUs.
type Sampler struct {
	rings []*ring
	stop  chan struct{}
	done  sync.WaitGroup
}

// counted are samples by process and chain.
type counted map[string]int

// ring is the ring buffer of one CPU.
type ring struct {
	fd     int
	memory []byte // the first page is the header
	counts counted
	lost   int
	failed error
}

// Start begins to sample. The error describes the missing privilege, if that is the reason.
func Start(cpus []int) (*Sampler, error) {
	s := &Sampler{stop: make(chan struct{})}
	for _, cpu := range cpus {
		r, err := openRing(cpu)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.rings = append(s.rings, r)
	}
	for _, r := range s.rings {
		s.done.Go(func() { r.follow(s.stop) })
	}
	return s, nil
}

func openRing(cpu int) (*ring, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(Period),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_CALLCHAIN,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		paranoid, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
		return nil, fmt.Errorf("perf events require root, or kernel.perf_event_paranoid below 1 (it is %s)",
			strings.TrimSpace(string(paranoid)))
	}
	if err != nil {
		return nil, fmt.Errorf("perf events: %w", os.NewSyscallError("perf_event_open", err))
	}
	size := (1 + ringPages) * os.Getpagesize()
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("perf events: %w", os.NewSyscallError("mmap", err)), unix.Close(fd))
	}
	return &ring{fd: fd, memory: memory, counts: make(counted)}, nil
}

// follow reads the ring buffer until stop is closed.
func (r *ring) follow(stop chan struct{}) {
	for {
		select {
		case <-stop:
			r.failed = os.NewSyscallError("ioctl", unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_DISABLE, 0))
			r.read()
			return
		case <-time.After(readEvery):
			r.read()
		}
	}
}

// read counts all new samples. The first page of the ring buffer has the positions at which the
// kernel writes next and this process reads next, in bytes since the start. Atomic access orders
// them with the samples.
func (r *ring) read() {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	end, at := atomic.LoadUint64(&page.Data_head), atomic.LoadUint64(&page.Data_tail)
	for at < end {
		record := fromRing(data, at, recordHeader)
		size := uint64(binary.NativeEndian.Uint16(record[6:]))
		if size < recordHeader {
			break
		}
		r.count(fromRing(data, at, size))
		at += size
	}
	atomic.StoreUint64(&page.Data_tail, end)
}

// recordHeader is the size of struct perf_event_header: type, misc, size.
const recordHeader = 8

// count counts a record.
func (r *ring) count(record []byte) {
	body := record[recordHeader:]
	switch binary.NativeEndian.Uint32(record) {
	case unix.PERF_RECORD_SAMPLE:
		if chain := sampleKey(body); chain != "" {
			r.counts[chain]++
		}
	case unix.PERF_RECORD_LOST:
		const lostAt = 8 // after the event's id
		r.lost += int(binary.NativeEndian.Uint64(body[lostAt:]))
	}
}

// sampleKey returns the process and the chain of a sample as a key: pid and tid, of which tid is
// dropped, then the number of addresses, and the addresses.
func sampleKey(body []byte) string {
	const pid, addresses = 4, 16
	if len(body) < addresses {
		return ""
	}
	n := binary.NativeEndian.Uint64(body[8:])
	end := addresses + 8*n
	if n > uint64(len(body)) || end > uint64(len(body)) {
		return ""
	}
	return string(body[:pid]) + string(body[addresses:end])
}

// fromRing returns bytes from a position on, which may wrap around.
func fromRing(data []byte, at, n uint64) []byte {
	from := at % uint64(len(data))
	if from+n <= uint64(len(data)) {
		return data[from : from+n]
	}
	return append(append([]byte{}, data[from:]...), data[:from+n-uint64(len(data))]...)
}

// end ends the sampling and returns the samples of all CPUs.
func (s *Sampler) end() (all counted, lost int, err error) {
	close(s.stop)
	s.done.Wait()
	all = make(counted)
	for _, r := range s.rings {
		for chain, n := range r.counts {
			all[chain] += n
		}
		lost += r.lost
		err = errors.Join(err, r.failed)
	}
	return all, lost, errors.Join(err, s.close())
}

func (s *Sampler) close() (err error) {
	for _, r := range s.rings {
		err = errors.Join(err, unix.Munmap(r.memory), unix.Close(r.fd))
	}
	return err
}
