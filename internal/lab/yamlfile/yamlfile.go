// Package yamlfile reads YAML files and reports the file and line of errors.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Error is an error in a file.
type Error struct {
	File string
	Line int // from 1; 0 if unknown
	What string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.What)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What)
}

// File is a parsed file, in which the lines of values can be found.
type File struct {
	name string
	tree *ast.File
	part string // prefix of paths, in place of "$"
}

// In returns the part of the file at path. Paths in it begin with "$", too.
func (f *File) In(path string) *File {
	return &File{f.name, f.tree, f.part + strings.TrimPrefix(path, "$")}
}

// Read decodes a file into a struct. Unknown and duplicate keys are errors. The error is an *Error
// unless the file cannot be read.
func Read(name string, into any) (*File, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, located(name, err)
	}
	f := &File{name: name, tree: tree}
	if len(bytes.TrimSpace(source)) == 0 {
		return f, &Error{File: name, What: "the file is empty"}
	}
	if err := yaml.NewDecoder(bytes.NewReader(source), yaml.Strict()).Decode(into); err != nil {
		return f, located(name, err)
	}
	return f, nil
}

// located converts an error of the decoder to an *Error.
func located(name string, err error) error {
	var yerr yaml.Error
	if !errors.As(err, &yerr) {
		return &Error{File: name, What: err.Error()}
	}
	e := &Error{File: name, What: yerr.GetMessage()}
	if t := yerr.GetToken(); t != nil {
		e.Line = t.Position.Line
	}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		e.What = fmt.Sprintf("want %s, got %s", typeText(te.DstType), typeText(te.SrcType))
		if te.Token != nil {
			e.What += fmt.Sprintf(" %q", te.Token.Value)
		}
	}
	return e
}

// typeText describes a type for a person who writes YAML.
func typeText(t reflect.Type) string {
	if t == nil {
		return "nothing"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "keys with values"
	}
	return t.String()
}

// Duration is a time.Duration, written as 500ms or 30s.
type Duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	return Scalar(n, d, func(text string) (Duration, error) {
		parsed, err := time.ParseDuration(text)
		if err != nil || parsed < 0 {
			return 0, fmt.Errorf("invalid duration %q: want a time such as 500ms or 30s", text)
		}
		return Duration(parsed), nil
	})
}

// Scalar parses a value of a file. An error of parse becomes one at the value's line.
func Scalar[T any](n ast.Node, into *T, parse func(string) (T, error)) error {
	t := n.GetToken()
	parsed, err := parse(t.Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: t}
	}
	*into = parsed
	return nil
}

// Fault returns an Error at the line of path, such as "$.request.path", or of its parent if it does
// not exist.
func (f *File) Fault(path, format string, args ...any) error {
	return &Error{File: f.name, Line: f.line(path), What: fmt.Sprintf(format, args...)}
}

func (f *File) line(path string) int {
	for path = "$" + f.part + strings.TrimPrefix(path, "$"); path != ""; {
		if p, err := yaml.PathString(path); err == nil {
			if node, err := p.FilterFile(f.tree); err == nil && node.GetToken() != nil {
				return node.GetToken().Position.Line
			}
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))] // of its parent
	}
	return 0
}
