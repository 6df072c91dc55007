package perf

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/profile"
	"github.com/tarehq/tare/internal/testkit"
)

// TestMain lets the test binary be the program that is sampled.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "play" {
		play()
		return
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// play works three times as long in one function as in another, until its input ends.
//
//go:noinline
func play() {
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	sum := uint64(1)
	for {
		for range 3 {
			sum = longWork(sum)
		}
		sum = shortWork(sum)
	}
}

//go:noinline
func longWork(sum uint64) uint64 {
	for range 20_000 {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	return sum
}

//go:noinline
func shortWork(sum uint64) uint64 {
	for range 20_000 {
		sum = sum*6364136223846793005 + 1442695040888963409
	}
	return sum
}

// The functions of a program have the shares of its CPU time that they use.
func TestSharesOfAProgram(t *testing.T) {
	testkit.Long(t, "it measures for seconds")
	cpus, err := contender.AllCPUs()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "play")
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = c.Wait()
	}()
	s, err := Start(cpus)
	if err != nil {
		t.Skip(err)
	}
	const enough = 700 * time.Millisecond // of CPU time: some 700 samples
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		u, err := proc.Usages([]proc.Process{{PID: c.Process.Pid}})
		if err == nil && len(u) == 1 && u[0].Ran > enough {
			break
		}
	}
	stacks, lost, err := s.End(map[int]string{c.Process.Pid: "application"})
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]int{}
	for _, stack := range stacks {
		for _, f := range stack.Frames {
			samples[f.Name[strings.LastIndexByte(f.Name, '.')+1:]] += stack.Count
		}
		leaf := stack.Frames[len(stack.Frames)-1]
		if strings.HasSuffix(leaf.Name, ".longWork") && !isCalledByMain(stack) {
			t.Errorf("the callers of longWork: %+v", stack.Frames)
		}
	}
	long, short := samples["longWork"], samples["shortWork"]
	if share := float64(long) / float64(max(1, long+short)); long+short < 300 || share < 0.65 || share > 0.85 {
		t.Errorf("%d and %d samples, %d lost: want three quarters; all: %v", long, short, lost, samples)
	}
}

// isCalledByMain reports whether the stack begins in the program's main function. The direct caller
// of a function without a frame of its own is not on it.
func isCalledByMain(s profile.Stack) bool {
	isMain := func(f profile.Frame) bool { return f.Name == "main.main" }
	return slices.ContainsFunc(s.Frames, isMain) && s.Frames[len(s.Frames)-1].Module == s.Frames[0].Module
}

func TestSymbolsAreFoundByAddress(t *testing.T) {
	all := symbols{{0x30, 0, "c"}, {0x10, 0x8, "a"}, {0x10, 0x8, "alias"}, {0x20, 0x10, "b"}}.sorted()
	for at, want := range map[uint64]string{
		0x0f: "", 0x10: "a", 0x17: "a", 0x18: "", 0x2f: "b", 0x30: "c", 0x99: "c",
	} {
		if got := all.find(at); got != want {
			t.Errorf("%#x: got %q, want %q", at, got, want)
		}
	}
	if got := (symbols)(nil).find(1); got != "" {
		t.Error(got)
	}
}

func TestPerfMapAndKernelAreParsed(t *testing.T) {
	compiled := parsePerfMap(strings.NewReader("7f00 20 py::handler:/srv/app.py\n0x7f20 10 LazyCompile:~f g.js:1\nbroken\n"))
	if compiled.find(0x7f1f) != "py::handler:/srv/app.py" || compiled.find(0x7f25) != "LazyCompile:~f g.js:1" {
		t.Errorf("%v", compiled)
	}
	kernel := parseKernel(strings.NewReader("ffffffff81000000 T _text\nffffffff81000010 t tcp_sendmsg\n" +
		"ffffffff81000020 D data\n0000000000000000 T hidden\nffffffff81000030 t f\t[module]\n"))
	if kernel.find(0xffffffff81000025) != "tcp_sendmsg" || len(kernel) != 3 {
		t.Errorf("%v", kernel)
	}
}

// record returns a record of a ring buffer.
func record(kind uint32, body ...uint64) []byte {
	b := make([]byte, recordHeader+8*len(body))
	binary.NativeEndian.PutUint32(b, kind)
	binary.NativeEndian.PutUint16(b[6:], uint16(len(b)))
	for i, v := range body {
		binary.NativeEndian.PutUint64(b[recordHeader+8*i:], v)
	}
	return b
}

// Records are counted wherever the ring buffer wraps around.
func TestRecordsWrapAround(t *testing.T) {
	const pid = 7
	sample := record(unix.PERF_RECORD_SAMPLE, pid, 2, contextUser, 0x10)
	lost := record(unix.PERF_RECORD_LOST, 1, 5)
	for start := range uint64(64) {
		r := &ring{counts: make(counted)}
		data := make([]byte, 64)
		at := 8 * start
		for _, rec := range [][]byte{sample, lost, sample} {
			for i, b := range rec {
				data[(at+uint64(i))%64] = b
			}
			r.count(fromRing(data, at, uint64(len(rec))))
			at += uint64(len(rec))
		}
		if len(r.counts) != 1 || r.lost != 5 {
			t.Fatalf("from %d: %v, %d lost", 8*start, r.counts, r.lost)
		}
		for key, n := range r.counts {
			if n != 2 || binary.NativeEndian.Uint32([]byte(key)) != pid || len(addresses(key[4:])) != 2 {
				t.Errorf("%q: %d", key, n)
			}
		}
	}
	if got := sampleKey(record(unix.PERF_RECORD_SAMPLE, pid, 1<<60)[recordHeader:]); got != "" {
		t.Errorf("a chain that is longer than its record: %q", got)
	}
}

// Numbers that are no addresses of code are left out, and the innermost function never is.
func TestChainsBecomeFrames(t *testing.T) {
	r := &resolver{kernel: symbols{{0xf000, 0, "tcp_sendmsg"}}, images: map[string]*image{"/bin/app": {
		symbols: symbols{{0x100, 0x10, "main.main"}, {0x200, 0x10, "main.f"}},
	}}}
	r.images["/bin/app"].loads = append(r.images["/bin/app"].loads, loadAt(0x1000, 0x100))
	p := &process{role: "application", mappings: []mapping{{0x5000, 0x6000, 0x1000, "/bin/app"}}}
	frames := r.frames(p, []uint64{contextKernel, 0xf010, contextUser, 0x5105, 0x999999, 0x5001})
	var names []string
	for _, f := range frames {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "main.main main.f tcp_sendmsg" {
		t.Errorf("got %s", got)
	}
	if frames = r.frames(p, []uint64{contextUser, 0x5fff}); len(frames) != 1 || frames[0].Text() != "[app]" {
		t.Errorf("%+v", frames)
	}
}

// loadAt returns an executable segment.
func loadAt(offset, address uint64) elf.ProgHeader {
	return elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_X, Off: offset, Vaddr: address, Filesz: 0x1000}
}
