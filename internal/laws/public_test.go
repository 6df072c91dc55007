//go:build !race

package laws

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxPublic limits the exported identifiers of packages: functions, types, constants, variables and
// methods of exported types, except those that implement an interface of the standard library.
// Fields do not count. Each is a promise to users. What only other packages of the project need is
// internal.
var maxPublic = map[string]int{
	"front":           22,
	"front/conf":      63,
	"front/files":     8,
	"front/nginxconf": 7,
	"front/http3":     1,
	"front/otel":      1,
	"front/server":    24,
}

func TestPublicIdentifiersAreFew(t *testing.T) {
	_, all := files(t)
	public := make(map[string][]string)
	for path, f := range all {
		dir := filepath.ToSlash(filepath.Dir(path))
		isPublic := (dir == "front" || strings.HasPrefix(dir, "front/")) && !strings.Contains(dir, "/internal/")
		if isTest(path) || !isPublic {
			continue
		}
		public[dir] = append(public[dir], publicNames(f)...)
	}
	for dir, names := range public {
		slices.Sort(names)
		names = slices.Compact(names)
		if limit := maxPublic[dir]; len(names) > limit {
			t.Errorf("%s: %d exported identifiers, want at most %d: %v", dir, len(names), limit, names)
		}
	}
}

// publicNames returns the exported identifiers of a file.
func publicNames(f *ast.File) (names []string) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			} else if d.Name.IsExported() && receiverIsExported(d) && !implementsObvious(d) {
				names = append(names, receiverName(d)+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
	return names
}

func receiverName(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, _ := typ.(*ast.Ident)
	return id.Name
}
