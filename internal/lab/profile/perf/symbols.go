package perf

import (
	"bufio"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// symbol is a function at an address.
type symbol struct {
	at, size uint64 // size 0 is unknown
	name     string
}

// symbols are sorted by address.
type symbols []symbol

// find returns the function at an address, or "".
func (all symbols) find(at uint64) string {
	i, exact := slices.BinarySearchFunc(all, at, func(s symbol, at uint64) int { return cmp.Compare(s.at, at) })
	if !exact {
		i--
	}
	if i < 0 || all[i].size > 0 && at >= all[i].at+all[i].size {
		return ""
	}
	return all[i].name
}

// sorted sorts symbols, and keeps one of several at an address.
func (all symbols) sorted() symbols {
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(all, func(a, b symbol) bool { return a.at == b.at })
}

// image is the code of a file.
type image struct {
	symbols symbols
	loads   []elf.ProgHeader // executable segments
}

// readImage reads the symbols of a program or library: of .symtab, or else of .dynsym, which a
// stripped file still has if others may call it.
func readImage(file string) (*image, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	im := new(image)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			im.loads = append(im.loads, p.ProgHeader)
		}
	}
	static, _ := f.Symbols() // an error means that there are none
	dynamic, _ := f.DynamicSymbols()
	for _, s := range slices.Concat(static, dynamic) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value != 0 {
			name, _, _ := strings.Cut(s.Name, "@")
			name = strings.TrimSuffix(name, ".abi0") // Go's calling convention of assembly
			im.symbols = append(im.symbols, symbol{s.Value, s.Size, name})
		}
	}
	if len(static) == 0 {
		im.symbols = append(im.symbols, goSymbols(f)...)
	}
	im.symbols = im.symbols.sorted()
	return im, nil
}

// goSymbols reads the functions of a Go program from the table that its runtime uses, which a
// stripped program still has.
func goSymbols(f *elf.File) (all symbols) {
	text, table := f.Section(".text"), f.Section(".gopclntab")
	if text == nil || table == nil {
		return nil
	}
	data, err := table.Data()
	if err != nil {
		return nil
	}
	parsed, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil
	}
	for i := range parsed.Funcs {
		fn := &parsed.Funcs[i]
		all = append(all, symbol{fn.Entry, fn.End - fn.Entry, fn.Name})
	}
	return all
}

// find returns the function at an offset in the file, or "".
func (im *image) find(offset uint64) string {
	for _, p := range im.loads {
		if offset >= p.Off && offset < p.Off+p.Filesz {
			return im.symbols.find(offset - p.Off + p.Vaddr)
		}
	}
	return ""
}

// mapping is a part of a process's memory with code.
type mapping struct {
	from, to, offset uint64
	file             string // "" is code without a file, as a compiler at run time makes it
}

// readMappings reads the executable mappings of a process.
func readMappings(pid int) (all []mapping, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // range, permissions, offset, device, inode, path
		const withoutPath = 5
		if len(fields) < withoutPath || !strings.Contains(fields[1], "x") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		m := mapping{from: hex(from), to: hex(to), offset: hex(fields[2])}
		if len(fields) > withoutPath {
			m.file = fields[withoutPath]
		}
		all = append(all, m)
	}
	return all, nil
}

// hex parses a hexadecimal number of the kernel's.
func hex(text string) uint64 {
	v, _ := strconv.ParseUint(text, 16, 64)
	return v
}

// readPerfMap reads the functions that a process has compiled at run time and listed in the file
// that perf reads: /tmp/perf-PID.map. Python and Node write it on request.
func readPerfMap(pid int) symbols {
	f, err := os.Open(filepath.Join(os.TempDir(), fmt.Sprintf("perf-%d.map", pid)))
	if err != nil {
		return nil
	}
	defer f.Close()
	return parsePerfMap(f)
}

// parsePerfMap parses lines of an address, a size and a name.
func parsePerfMap(r io.Reader) (all symbols) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		const parts = 3
		fields := strings.SplitN(lines.Text(), " ", parts)
		if len(fields) == parts {
			all = append(all, symbol{hex(strings.TrimPrefix(fields[0], "0x")), hex(fields[1]), fields[2]})
		}
	}
	return all.sorted()
}

// readKernel reads the kernel's functions. Without the right to see addresses it returns none.
func readKernel() symbols {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseKernel(f)
}

// parseKernel parses lines of an address, a type and a name. T, t, W and w are functions.
func parseKernel(r io.Reader) (all symbols) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		const name = 2
		fields := strings.Fields(lines.Text())
		if len(fields) <= name || !strings.ContainsAny(fields[1], "TtWw") {
			continue
		}
		if at := hex(fields[0]); at != 0 {
			all = append(all, symbol{at: at, name: fields[name]})
		}
	}
	return all.sorted()
}
