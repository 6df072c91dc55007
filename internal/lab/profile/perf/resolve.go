package perf

import (
	"cmp"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/profile"
)

// Marks in a chain: what follows is of the kernel or of the program (enum perf_callchain_context).
const (
	contextKernel = ^uint64(128) + 1
	contextUser   = ^uint64(512) + 1
	contextMax    = ^uint64(4095) + 1 // this and above are marks
)

// resolver turns addresses into functions.
type resolver struct {
	kernel symbols
	images map[string]*image // by path; nil if it cannot be read
}

// process is a process whose samples are kept.
type process struct {
	role     string
	mappings []mapping
	compiled symbols // at run time
}

// End ends the sampling and returns the stacks of processes, given by their role. The processes
// must still live. A process that has ended has no functions.
func (s *Sampler) End(roles map[int]string) (stacks []profile.Stack, lost int, err error) {
	counts, lost, err := s.end()
	if err != nil {
		return nil, lost, err
	}
	r := &resolver{kernel: readKernel(), images: make(map[string]*image)}
	processes := make(map[int]*process)
	for pid, role := range roles {
		p := &process{role: role, compiled: readPerfMap(pid)}
		p.mappings, _ = readMappings(pid) // an error means that it has ended
		processes[pid] = p
	}
	for key, n := range counts {
		const pidBytes = 4
		p := processes[int(binary.NativeEndian.Uint32([]byte(key[:pidBytes])))]
		if p == nil {
			continue
		}
		stacks = append(stacks, profile.Stack{Role: p.role, Frames: r.frames(p, addresses(key[pidBytes:])), Count: n})
	}
	return joined(stacks), lost, nil
}

func addresses(chain string) (all []uint64) {
	b := []byte(chain)
	for len(b) > 0 {
		all = append(all, binary.NativeEndian.Uint64(b))
		b = b[8:]
	}
	return all
}

// frames returns the functions of a chain, the outermost first.
func (r *resolver) frames(p *process, chain []uint64) (frames []profile.Frame) {
	inKernel, isFirst := false, true
	for _, at := range chain {
		if at >= contextMax {
			inKernel, isFirst = at == contextKernel, true
			continue
		}
		// All but the innermost are return addresses: the call is before them.
		if !isFirst {
			at--
		}
		var f profile.Frame
		if inKernel {
			f = profile.Frame{Name: r.kernel.find(at), Kernel: true}
		} else {
			f = r.find(p, at)
		}
		// Without frame pointers the kernel finds numbers that are no addresses of code.
		if isFirst || f.Name != "" {
			frames = append(frames, f)
		}
		isFirst = false
	}
	slices.Reverse(frames)
	return frames
}

// find returns the function of a program at an address.
func (r *resolver) find(p *process, at uint64) profile.Frame {
	for _, m := range p.mappings {
		if at < m.from || at >= m.to {
			continue
		}
		if m.file == "" || m.file[0] != '/' {
			return profile.Frame{Name: p.compiled.find(at), Module: strings.Trim(m.file, "[]")}
		}
		return profile.Frame{Name: r.image(m.file).find(at - m.from + m.offset), Module: filepath.Base(m.file)}
	}
	return profile.Frame{Name: p.compiled.find(at)}
}

// image returns the image of a file; one without symbols if it cannot be read.
func (r *resolver) image(file string) *image {
	if im, ok := r.images[file]; ok {
		return im
	}
	im, err := readImage(file)
	if err != nil {
		im = new(image)
	}
	r.images[file] = im
	return im
}

// joined adds up equal stacks, and sorts them.
func joined(all []profile.Stack) (sums []profile.Stack) {
	slices.SortFunc(all, compareStacks)
	for _, s := range all {
		if n := len(sums); n > 0 && compareStacks(sums[n-1], s) == 0 {
			sums[n-1].Count += s.Count
		} else {
			sums = append(sums, s)
		}
	}
	return sums
}

func compareStacks(a, b profile.Stack) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), slices.CompareFunc(a.Frames, b.Frames, func(f, g profile.Frame) int {
		return cmp.Or(cmp.Compare(f.Name, g.Name), cmp.Compare(f.Module, g.Module))
	}))
}
