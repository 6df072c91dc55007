package fleet

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Program is an executable file of tare that can be copied to other machines.
type Program struct {
	path string
	arch string // as GOARCH
	sum  string // SHA-256
	size int64
}

// OpenProgram returns the program in a file.
func OpenProgram(path string) (*Program, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	defer file.Close()
	p := &Program{path: path, arch: runtime.GOARCH}
	if binary, err := elf.NewFile(file); err == nil {
		p.arch = archOf(binary)
	}
	hash := sha256.New()
	if p.size, err = io.Copy(hash, io.NewSectionReader(file, 0, 1<<62)); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	p.sum = hex.EncodeToString(hash.Sum(nil))
	return p, nil
}

// archOf returns the architecture of a file, as GOARCH.
func archOf(f *elf.File) string {
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_386:
		return "386"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_S390:
		return "s390x"
	case elf.EM_LOONGARCH:
		return "loong64"
	case elf.EM_PPC64:
		if f.ByteOrder.String() == "LittleEndian" {
			return "ppc64le"
		}
		return "ppc64"
	}
	return f.Machine.String()
}

// goArch returns the architecture that "uname -m" reports, as GOARCH.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "i386", "i486", "i586", "i686":
		return "386"
	case "armv6l", "armv7l", "armv8l":
		return "arm"
	case "loongarch64":
		return "loong64"
	}
	return machine // riscv64, s390x, ppc64le
}
