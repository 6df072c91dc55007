package template

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template/parse"
)

// execution is one execution of a template.
type execution struct {
	template *Template
	tree     *parse.Tree
	out      *bytes.Buffer
	depth    int
	vars     []variable // the innermost one is the last
}

type variable struct {
	name  string
	value reflect.Value
}

// errBreak and errContinue end an iteration.
var (
	errBreak    = errors.New("break outside of range")
	errContinue = errors.New("continue outside of range")
)

// failure is an error with its place in the template.
type failure struct {
	place string
	err   error
}

func (f *failure) Error() string { return "template: " + f.place + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// at adds the place of a node to an error, unless it has one.
func (x *execution) at(n parse.Node, err error) error {
	var placed *failure
	if err == nil || errors.As(err, &placed) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	place, context := x.tree.ErrorContext(n)
	return &failure{place + ": at <" + context + ">", err}
}

// walk executes a node.
func (x *execution) walk(dot reflect.Value, n parse.Node) error {
	switch n := n.(type) {
	case *parse.TextNode:
		x.out.Write(n.Text)
	case *parse.ListNode:
		for _, child := range n.Nodes {
			if err := x.walk(dot, child); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		value, err := x.pipe(dot, n.Pipe)
		if err == nil && len(n.Pipe.Decl) == 0 {
			x.print(value)
		}
		return x.at(n, err)
	case *parse.IfNode:
		return x.at(n, x.branch(dot, &n.BranchNode, false))
	case *parse.WithNode:
		return x.at(n, x.branch(dot, &n.BranchNode, true))
	case *parse.RangeNode:
		return x.at(n, x.iterate(dot, n))
	case *parse.TemplateNode:
		data, err := x.pipe(dot, n.Pipe)
		if err == nil {
			err = x.template.execute(x.out, n.Name, data, x.depth+1)
		}
		return x.at(n, err)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	}
	return nil // a comment
}

// branch executes {{if}} and {{with}}.
func (x *execution) branch(dot reflect.Value, n *parse.BranchNode, setsDot bool) error {
	defer x.restore(len(x.vars))
	value, err := x.pipe(dot, n.Pipe)
	switch {
	case err != nil:
		return err
	case !isTrue(value) && n.ElseList != nil:
		return x.walk(dot, n.ElseList)
	case !isTrue(value):
		return nil
	case setsDot:
		dot = value
	}
	return x.walk(dot, n.List)
}

// restore ends the scope of variables.
func (x *execution) restore(n int) { x.vars = x.vars[:n] }

// iterate executes {{range}}.
func (x *execution) iterate(dot reflect.Value, n *parse.RangeNode) error {
	defer x.restore(len(x.vars))
	value, err := x.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	value, _ = indirect(value)
	if len(n.Pipe.Decl) > 1 && (value.CanInt() || value.CanUint()) {
		return fmt.Errorf("range over a %s sets one variable", value.Type())
	}
	outer, count := len(x.vars), 0
	one := func(key, element reflect.Value) error {
		count++
		defer x.restore(outer)
		x.setRange(n.Pipe, key, element)
		err := x.walk(element, n.List)
		if errors.Is(err, errContinue) {
			return nil
		}
		return err
	}
	err = each(value, one)
	if errors.Is(err, errBreak) {
		return nil
	}
	if err == nil && count == 0 && n.ElseList != nil {
		return x.walk(dot, n.ElseList)
	}
	return err
}

// setRange sets the variables of {{range}}, which the pipeline has declared.
func (x *execution) setRange(p *parse.PipeNode, key, element reflect.Value) {
	values := []reflect.Value{key, element}[2-min(2, len(p.Decl)):]
	for i, v := range p.Decl {
		x.set(v.Ident[0], values[i])
	}
}

// set sets a variable that exists.
func (x *execution) set(name string, value reflect.Value) {
	for i, v := range slices.Backward(x.vars) {
		if v.name == name {
			x.vars[i].value = value
			return
		}
	}
}

// each calls f for the elements of a value.
func each(value reflect.Value, f func(key, element reflect.Value) error) error {
	switch value.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			if err := f(reflect.ValueOf(i), value.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys := value.MapKeys()
		slices.SortFunc(keys, compareKeys)
		for _, key := range keys {
			if err := f(key, value.MapIndex(key)); err != nil {
				return err
			}
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		for i := range value.Convert(reflect.TypeFor[int64]()).Int() {
			n := reflect.ValueOf(i).Convert(value.Type())
			if err := f(n, n); err != nil {
				return err
			}
		}
	case reflect.Invalid, reflect.Pointer: // nil
	default:
		return fmt.Errorf("range cannot iterate over a %s", value.Type())
	}
	return nil
}

// compareKeys orders the keys of a map, as far as they are ordered.
func compareKeys(a, b reflect.Value) int {
	switch {
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// print writes a value. Without one, a page has nothing there.
func (x *execution) print(value reflect.Value) {
	switch {
	case !x.template.isHTML:
		x.out.WriteString(textOf(value))
	case !value.IsValid(), value.Kind() == reflect.Interface && value.IsNil():
	case value.Type() == reflect.TypeFor[HTML]():
		x.out.WriteString(value.String())
	default:
		x.out.WriteString(Escape(textOf(value)))
	}
}

// textOf returns the text of a value, as package fmt prints it.
func textOf(value reflect.Value) string {
	for value.IsValid() && value.Kind() == reflect.Pointer && !value.IsNil() && !printsItself(value.Type()) {
		value = value.Elem()
	}
	if !value.IsValid() {
		return "<no value>"
	}
	if !printsItself(value.Type()) && value.CanAddr() && printsItself(reflect.PointerTo(value.Type())) {
		value = value.Addr()
	}
	return fmt.Sprint(value.Interface())
}

func printsItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[error]()) || t.Implements(reflect.TypeFor[fmt.Stringer]())
}
