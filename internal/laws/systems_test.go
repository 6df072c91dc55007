//go:build !race

package laws

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Packages that build on other systems do, with their tests: their types are correct there. The
// check reads all source, also of the standard library, so that nothing is compiled for a system on
// which it never runs. "make lint" runs "go vet" for these systems.
func TestArchitectureBuildsOnOtherSystems(t *testing.T) {
	testkit.Long(t, "it builds all packages")
	t.Chdir(root)
	packages := strings.Fields(makeVariable(t, "PORTABLE"))
	for _, system := range []struct {
		os, arch string
		packages []string
	}{
		{"darwin", "arm64", slices.Concat(packages, []string{"./cmd/tare"})},
		{"windows", "amd64", packages}, {"linux", "386", packages},
		{"linux", "arm", []string{"./internal/poll/...", "./internal/engine/..."}},
	} {
		t.Run(system.os+"/"+system.arch, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"list", "-deps", "-test", "-pgo=off",
				"-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}, system.packages)...)
			c.Env = append(os.Environ(), "GOOS="+system.os, "GOARCH="+system.arch, "CGO_ENABLED=0")
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			testkit.Must(t, err)
			set := &typeSet{set: token.NewFileSet(), sizes: types.SizesFor("gc", system.arch),
				known: map[string]*types.Package{"unsafe": types.Unsafe}}
			found := 0
			for list := json.NewDecoder(out); ; found++ {
				var p listed
				if err := list.Decode(&p); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				for _, err := range set.check(&p) {
					t.Error(err)
				}
			}
			if err := c.Wait(); err != nil || found < 100 {
				t.Errorf("%d packages, %v", found, err)
			}
		})
	}
}

// listed is a package as the go command describes it. Those it imports come before it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // paths in the source that stand for others
	Module          *struct{ Path string }
	Error           *struct{ Err string }
}

// typeSet are the packages that were checked for one system.
type typeSet struct {
	set   *token.FileSet
	sizes types.Sizes
	known map[string]*types.Package
}

// check checks a package of the project; of others it checks only what they declare.
func (s *typeSet) check(p *listed) (errs []error) {
	if p.Error != nil {
		return []error{errors.New(p.Error.Err)}
	}
	if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // a generated program
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(s.set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, f)
	}
	isOurs := p.Module != nil && p.Module.Path == module
	config := types.Config{
		Sizes: s.sizes, IgnoreFuncBodies: !isOurs, Importer: importerFrom{s, p.ImportMap},
		Error: func(err error) {
			if isOurs {
				errs = append(errs, err)
			}
		},
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // a test's name may follow the path
	s.known[p.ImportPath], _ = config.Check(path, s.set, files, nil)
	return errs
}

// importerFrom imports what a package imports.
type importerFrom struct {
	set   *typeSet
	paths map[string]string
}

func (i importerFrom) Import(path string) (*types.Package, error) {
	if other := i.paths[path]; other != "" {
		path = other
	}
	if p := i.set.known[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("not found: " + path)
}

func makeVariable(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Value(os.ReadFile("Makefile"))(t)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if value, ok := strings.CutPrefix(line, name+" := "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("the Makefile has no %s", name)
	return ""
}
