package contender

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dropPages makes the kernel forget the pages of the part's programs, so that they are read from
// the disk when they start. Where pages lie in memory is decided when a file is written or read,
// and with it how well the processor caches them. Otherwise all starts of a run have this in
// common: one of two copies of a program took 4 % more CPU time, until both were read again.
func (p *part) dropPages() {
	for i, word := range p.words {
		if i == 0 && !strings.Contains(word, "/") {
			word, _ = exec.LookPath(word)
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(p.folder, word)
		}
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
			dropProgram(word)
		}
	}
}

// dropProgram makes the kernel forget the pages of a file, except for those that a process uses. It
// does nothing unless the file is a program, and ignores errors.
func dropProgram(name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	const elf = "\x7fELF"
	magic := make([]byte, len(elf))
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elf {
		return
	}
	_ = f.Sync() // unwritten pages would stay
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
