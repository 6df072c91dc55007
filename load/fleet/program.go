package fleet

import (
	"cmp"
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

func archOf(f *elf.File) string {
	arch := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm", elf.EM_RISCV: "riscv64",
		elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64", elf.EM_PPC64: "ppc64",
	}[f.Machine]
	if f.Machine == elf.EM_PPC64 && f.Data == elf.ELFDATA2LSB {
		arch = "ppc64le"
	}
	return cmp.Or(arch, f.Machine.String())
}

// goArch returns the architecture that "uname -m" reports, as GOARCH.
func goArch(machine string) string {
	arch := map[string]string{
		"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i486": "386", "i586": "386", "i686": "386",
		"armv6l": "arm", "armv7l": "arm", "armv8l": "arm", "loongarch64": "loong64",
	}[machine]
	return cmp.Or(arch, machine) // riscv64, s390x, ppc64le
}
