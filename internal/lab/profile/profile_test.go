package profile

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func stack(role string, count int, names ...string) Stack {
	s := Stack{Role: role, Count: count}
	for _, n := range names {
		name, inKernel := strings.CutPrefix(n, "k:")
		s.Frames = append(s.Frames, Frame{Name: name, Kernel: inKernel})
	}
	return s
}

func of(title string, requests uint64, stacks ...Stack) *Profile {
	return &Profile{Contender: title, Title: title, Requests: requests, Period: time.Millisecond, Stacks: stacks}
}

func TestFoldJoinsStacks(t *testing.T) {
	root := Fold([]Stack{
		stack("app", 3, "a", "b"), stack("app", 2, "a"), stack("app", 1, "a", "c"), stack("nginx", 4, "x"),
	})
	if root.Count != 10 || len(root.Children) != 2 {
		t.Fatalf("%+v", root)
	}
	a := root.find([]Frame{{Name: "app"}, {Name: "a"}})
	if a == nil || a.Count != 6 || len(a.Children) != 2 || a.Children[0].Name != "b" {
		t.Errorf("%+v", a)
	}
	if root.Depth(1) != 3 || root.Depth(4) != 2 || root.find([]Frame{{Name: "none"}}) != nil {
		t.Errorf("depth %d, %d", root.Depth(1), root.Depth(4))
	}
}

// An area is a package, what the runtime does, a library, or a system call.
func TestAreas(t *testing.T) {
	const serve, mcall = "net/http.f", "runtime.mcall"
	for want, s := range map[string]Stack{
		"net/http":                   stack("app", 1, "net/http.(*conn).serve", "net/http.readRequest"),
		"net/textproto":              stack("app", 1, serve, "net/textproto.(*Reader).readLine"),
		"github.com/a/b.c/d":         stack("app", 1, "github.com/a/b.c/d.(*T).f"),
		"kernel: writes":             stack("app", 1, serve, "k:do_syscall_64", "k:__x64_sys_sendto", "k:tcp_send"),
		"kernel: reads":              stack("app", 1, serve, "k:do_syscall_64", "k:ksys_read", "k:tcp_recvmsg"),
		"kernel: futex":              stack("app", 1, "", "k:do_syscall_64", "k:do_futex"),
		"kernel: page faults":        stack("app", 1, "k:asm_exc_page_fault", "k:clear_page"),
		"kernel: other work":         stack("app", 1, "k:finish_task_switch"),
		"Go: garbage collection":     stack("app", 1, "runtime.gcBgMarkWorker", "runtime.scanobject"),
		"Go: memory allocation":      stack("app", 1, "net/http.f", "runtime.mallocgc", "runtime.nextFreeFast"),
		"Go: maps":                   stack("app", 1, "net/http.f", "internal/runtime/maps.(*Map).Put"),
		"Go: scheduling and polling": stack("app", 1, mcall, "runtime.park_m", "runtime.runqget"),
		"Go: runtime":                stack("app", 1, "net/http.f", "runtime.memmove"),
		"unknown":                    stack("app", 1, ""),
		"libc.so.6":                  {Frames: []Frame{{Name: "memcpy", Module: "libc.so.6"}}},
	} {
		if got := s.Area(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Samples are compared by request: a contender with twice the samples of twice the requests is
// equal.
func TestDifferenceIsByRequest(t *testing.T) {
	control := of("net/http", 1000, stack("app", 30, "main.work"), stack("app", 10, "main.parse"))
	twice := of("other", 2000, stack("app", 60, "main.work"), stack("app", 20, "main.parse"))
	for _, c := range Functions(twice, control) {
		if math.Abs(c.More()) > 1e-9 {
			t.Errorf("%+v", c)
		}
	}
	if text := Explain(twice, control); text != "" {
		t.Error(text)
	}
}

func TestExplanationNamesFunctions(t *testing.T) {
	control := of("net/http", 1000, stack("app", 20, "net/http.serve"),
		stack("app", 10, "net/http.f", "internal/runtime/maps.put"))
	tare := of("tare", 1000, stack("app", 10, "net/http.serve"))
	want := "tare spends 20.0 µs less on a request than net/http: 10.0 µs (50 %) is Go: maps, 10.0 µs (50 %) is net/http. " +
		"By function: 10.0 µs (50 %) is internal/runtime/maps.put, 10.0 µs (50 %) is net/http.serve."
	if got := Explain(tare, control); got != want {
		t.Errorf("got %s", got)
	}
	if got := Explain(of("empty", 1), control); got != "" {
		t.Error(got)
	}
	front := of("nginx", 1000, stack("app", 30, "net/http.serve"), stack("nginx", 40, "k:entry", "k:__x64_sys_writev"))
	got := Explain(front, control)
	if !strings.Contains(got, "nginx spends 40.0 µs more") || !strings.Contains(got, "kernel: writes") {
		t.Error(got)
	}
}

func TestFlameIsAsWideAsItsTime(t *testing.T) {
	p := of("net/http", 1000, stack("app", 3, "main.a", "main.b"), stack("app", 1, "main.a", "k:write"))
	g := Flame(p)
	width := make(map[string]Box)
	for _, b := range g.Boxes {
		name, _, _ := strings.Cut(b.Title, ":")
		width[name] = b
		if b.X < 0 || b.X+b.Width > g.Width+1 || b.Y < 0 || b.Y+b.Height > g.Height {
			t.Errorf("outside: %+v", b)
		}
	}
	if width["main.a"].Width != graphWidth || width["main.b"].Width != graphWidth*3/4 ||
		width["write"].Class != "flame-kernel" {
		t.Errorf("%+v", width)
	}
	if width["main.b"].Y >= width["main.a"].Y || width["main.b"].Title != "main.b: 3.00 µs, 75.0 %" {
		t.Errorf("%+v", width["main.b"])
	}
	if Flame(of("none", 1)) != nil {
		t.Error("a graph without samples")
	}
}

// A narrow box is left out, and long names are cut.
func TestNarrowBoxesAreLeftOut(t *testing.T) {
	g := Flame(of("x", 1, stack("app", 100_000, "main."+strings.Repeat("a", 300)), stack("app", 1, "main.rare")))
	if slices.ContainsFunc(g.Boxes, func(b Box) bool { return strings.HasPrefix(b.Title, "main.rare") }) {
		t.Error("a box of less than a pixel")
	}
	last := g.Boxes[len(g.Boxes)-1]
	if !strings.HasSuffix(last.Text, "…") || float64(len([]rune(last.Text)))*characterWidth > last.Width {
		t.Errorf("%+v", last)
	}
}

func TestDifferenceHasColors(t *testing.T) {
	control := of("net/http", 1000, stack("app", 10, "main.a"), stack("app", 10, "main.b"))
	p := of("other", 1000, stack("app", 40, "main.a"), stack("app", 2, "main.b"), stack("app", 3, "main.c"))
	class := make(map[string]string)
	for _, b := range Difference(p, control).Boxes {
		name, _, _ := strings.Cut(b.Title, ":")
		class[name] = b.Class
	}
	if class["main.a"] != "flame-more-4" || class["main.b"] != "flame-less-4" || class["main.c"] != "flame-more-4" {
		t.Errorf("%v", class)
	}
}

// pprof reads the file, and finds the same functions.
func TestPprofReadsTheFile(t *testing.T) {
	p := of("net/http", 1000, stack("application", 3, "main.a", "main.b"), stack("nginx", 1, "main.a", "k:write"))
	var b bytes.Buffer
	if err := p.WritePprof(&b); err != nil {
		t.Fatal(err)
	}
	got, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Sample) != 2 || got.Sample[0].Value[0] != 3 || got.Sample[0].Value[1] != 3e6 ||
		got.Sample[0].Location[0].Line[0].Function.Name != "main.b" || got.Sample[1].Label["process"][0] != "nginx" {
		t.Errorf("%v", got)
	}
}
