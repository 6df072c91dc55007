package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// overlayTag is the build tag of the files that exist in the overlay only.
const overlayTag = "tare_overlay"

//go:embed hook
var hookFiles embed.FS

// overlay replaces and adds files of the standard library and of a project, in the form of
// "go build -overlay". tare and the hook become packages of the standard library, so that no
// project's go.mod changes.
type overlay struct {
	goroot string
	folder string // has the files' contents
	files  map[string]string
}

// newOverlay writes the overlay of a Go installation. sources are tare's packages: folders by path.
func newOverlay(goroot, folder string, sources map[string][]string) (*overlay, error) {
	o := &overlay{goroot: goroot, folder: folder, files: make(map[string]string)}
	if err := o.insertCalls(); err != nil {
		return nil, err
	}
	for name, path := range map[string]string{"hook/hook.go": "tarehq/hook/hook.go",
		"hook/http/replaced.go": "net/http/zz_replaced.go"} {
		source, err := hookFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := o.addStandard(path, source); err != nil {
			return nil, err
		}
	}
	for path, files := range sources {
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			path := filepath.Join(strings.TrimPrefix(path, "github.com/"), filepath.Base(file))
			if err := o.addStandard(path, source); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

// addStandard adds a file of the standard library, in which imports of tare are renamed.
func (o *overlay) addStandard(path string, source []byte) error {
	text := strings.ReplaceAll(string(source), `"github.com/tarehq/`, `"tarehq/`)
	return o.add(filepath.Join(o.goroot, "src", path), []byte(text))
}

// add adds or replaces a file.
func (o *overlay) add(path string, source []byte) error {
	own := filepath.Join(o.folder, strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "+"))
	o.files[path] = own
	return os.WriteFile(own, source, 0o644)
}

// write writes the file for "go build -overlay" and returns its name.
func (o *overlay) write() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.files})
	if err != nil {
		return "", err
	}
	name := filepath.Join(o.folder, "overlay.json")
	return name, os.WriteFile(name, text, 0o644)
}

// replacedMethods returns the methods of net/http at whose start a call is inserted, with the names
// of their results.
func replacedMethods() map[string]string {
	return map[string]string{
		"Server.Serve": "err", "Server.ServeTLS": "err", "Server.Shutdown": "err", "Server.Close": "err",
		"Server.SetKeepAlivesEnabled": "", "Transport.RoundTrip": "resp, err", "Transport.CloseIdleConnections": "",
	}
}

// insertCalls inserts the calls of http.Replaced, each in the line of the method's head, so that
// lines keep their numbers.
func (o *overlay) insertCalls() error {
	dir := filepath.Join(o.goroot, "src", "net", "http")
	p, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return err
	}
	methods := replacedMethods()
	for _, name := range p.GoFiles {
		path := filepath.Join(dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := insertInto(path, string(source), methods)
		if err != nil {
			return err
		}
		if changed != string(source) {
			if err := o.add(path, []byte(changed)); err != nil {
				return err
			}
		}
	}
	if len(methods) > 0 {
		return fmt.Errorf("%s: no methods %v", dir, methods)
	}
	return nil
}

// insertInto inserts the calls into a file, and removes its methods from those that are missing.
func insertInto(path, source string, missing map[string]string) (string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	added := 0
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			continue
		}
		star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		receiver, ok := star.X.(*ast.Ident)
		if !ok {
			continue
		}
		method := receiver.Name + "." + fn.Name.Name
		results, ok := missing[method]
		if !ok {
			continue
		}
		delete(missing, method)
		call, err := callOf(fn, receiver.Name+fn.Name.Name, results)
		if err != nil {
			return "", fmt.Errorf("%s: %w", set.Position(fn.Pos()), err)
		}
		at := set.Position(fn.Body.Lbrace).Offset + 1 + added
		source = source[:at] + call + source[at:]
		added += len(call)
	}
	return source, nil
}

// callOf returns the statement that calls a function of http.Replaced.
func callOf(fn *ast.FuncDecl, name, results string) (string, error) {
	var args []string
	for _, list := range [][]*ast.Field{fn.Recv.List, fn.Type.Params.List} {
		for _, field := range list {
			if len(field.Names) == 0 || field.Names[0].Name == "_" {
				return "", errors.New("a parameter without a name")
			}
			for _, n := range field.Names {
				args = append(args, n.Name)
			}
		}
	}
	values := "ok"
	if results != "" {
		values += ", " + results
	}
	return fmt.Sprintf(" if f := Replaced.%s; f != nil { if %s := f(%s); ok { return %s } };", name, values,
		strings.Join(args, ", "), results), nil
}
