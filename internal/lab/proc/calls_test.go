package proc

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestCallsAreCounted(t *testing.T) {
	testkit.NeedRoot(t)
	c, err := CountCalls()
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // containers and locked-down kernels do not allow it
	}
	testkit.Must(t, err)
	defer c.Close()
	self := os.Getpid()
	before := testkit.Value(c.Counts())(t)
	const made = 1000
	for range made {
		_ = syscall.Getppid()
	}
	after := testkit.Value(c.Counts())(t)
	testkit.Equal(t, after[self][syscall.SYS_GETPPID]-before[self][syscall.SYS_GETPPID], made, "calls of getppid")
}

var update = flag.Bool("update", false, "write the tables of system calls anew")

// The tables have the names of golang.org/x/sys/unix.
func TestCallNames(t *testing.T) {
	out := testkit.Value(testkit.Command(t, "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output())(t)
	for _, arch := range []string{"amd64", "arm64"} {
		want := callTable(t, filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+arch+".go"))
		file := "callnames_" + arch + ".txt"
		if *update {
			testkit.WriteFile(t, file, want)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s differs from golang.org/x/sys/unix, %v (go test -update writes it)", file, err)
		}
	}
	names := CallNames()
	for number, name := range map[int]string{
		syscall.SYS_READ: "read", syscall.SYS_GETPPID: "getppid", syscall.SYS_EPOLL_CTL: "epoll_ctl",
	} {
		if names[number] != name && len(names) > 0 {
			t.Errorf("call %d is %q, want %q", number, names[number], name)
		}
	}
}

// callTable returns the lines of a table made from the constants of a Go file.
func callTable(t *testing.T, file string) string {
	t.Helper()
	parsed := testkit.Value(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
	var b strings.Builder
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, found := strings.CutPrefix(spec.Names[0].Name, "SYS_")
		number, err := strconv.Atoi(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !found {
			t.Fatalf("%s: %s", file, spec.Names[0].Name)
		}
		fmt.Fprintf(&b, "%d %s\n", number, strings.ToLower(name))
		return true
	})
	return b.String()
}
