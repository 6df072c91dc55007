package proc_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/testkit"
)

// The first access to each page is a fault of the process.
func TestPageFaultsAreCounted(t *testing.T) {
	const pages = 1000
	size := os.Getpagesize()
	self := []proc.Process{{PID: os.Getpid()}}
	memory, err := syscall.Mmap(-1, 0, pages*size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	testkit.Must(t, err)
	defer syscall.Munmap(memory)
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // fails on systems without huge pages
	before := testkit.Value(proc.Usages(self))(t)
	for i := range pages {
		memory[i*size] = 1
	}
	after := testkit.Value(proc.Usages(self))(t)
	if c := proc.Costs(before, after)[0]; c.MinorFaults < pages || c.MinorFaults > 10*pages {
		t.Errorf("%d faults for %d pages", c.MinorFaults, pages)
	}
}
