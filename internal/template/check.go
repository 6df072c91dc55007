package template

import (
	"errors"
	"fmt"
	"reflect"
	"text/template/parse"
)

// Check returns an error for each field and method that the templates use and that data of a type
// does not have, in all branches: Execute fails only in those that it reaches. It is for tests,
// because a program that contains it contains all exported methods. What interfaces contain is not
// checked.
func (t *Template) Check(data reflect.Type) error {
	c := &check{template: t, checked: make(map[checkedKey]bool)}
	c.execute(t.main, static{data, false})
	return errors.Join(c.errs...)
}

// static is what is known of a value before it exists.
type static struct {
	is      reflect.Type // nil if unknown
	canAddr bool
}

// check is a Check.
type check struct {
	template *Template
	tree     *parse.Tree
	vars     []staticVariable // the innermost one is the last
	checked  map[checkedKey]bool
	errs     []error
}

type staticVariable struct {
	name  string
	value static
}

type checkedKey struct {
	name string
	data static
}

func (c *check) errorf(n parse.Node, format string, args ...any) static {
	place, context := c.tree.ErrorContext(n)
	c.errs = append(c.errs, &failure{place + ": at <" + context + ">", fmt.Errorf(format, args...)})
	return static{}
}

// execute checks a template with a type of data, once.
func (c *check) execute(name string, data static) {
	tree, key := c.template.trees[name], checkedKey{name, data}
	if tree == nil || c.checked[key] {
		return
	}
	c.checked[key] = true
	outer, vars := c.tree, c.vars
	c.tree, c.vars = tree, []staticVariable{{"$", data}}
	c.walk(data, tree.Root)
	c.tree, c.vars = outer, vars
}

func (c *check) walk(dot static, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return // no else
		}
		for _, child := range n.Nodes {
			c.walk(dot, child)
		}
	case *parse.ActionNode:
		c.pipe(dot, n.Pipe)
	case *parse.IfNode:
		c.branch(dot, &n.BranchNode, func(static) static { return dot })
	case *parse.WithNode:
		c.branch(dot, &n.BranchNode, func(value static) static { return value })
	case *parse.RangeNode:
		c.branch(dot, &n.BranchNode, func(value static) static { return c.element(n.Pipe, value) })
	case *parse.TemplateNode:
		if c.template.trees[n.Name] == nil {
			c.errorf(n, "no template %q", n.Name)
		}
		c.execute(n.Name, c.pipe(dot, n.Pipe))
	}
}

// branch checks {{if}}, {{with}} and {{range}}, whose dot depends on the pipeline.
func (c *check) branch(dot static, n *parse.BranchNode, inner func(value static) static) {
	vars := len(c.vars)
	value := c.pipe(dot, n.Pipe)
	scope := len(c.vars)
	c.walk(inner(value), n.List)
	c.vars = c.vars[:scope]
	c.walk(dot, n.ElseList)
	c.vars = c.vars[:vars]
}

// element returns the elements of {{range}}, and sets its variables.
func (c *check) element(p *parse.PipeNode, value static) static {
	key, of := static{is: reflect.TypeFor[int]()}, static{}
	value = pointee(value)
	switch kindOf(value) {
	case reflect.Invalid:
		key = static{}
	case reflect.Slice:
		of = static{value.is.Elem(), true}
	case reflect.Array:
		of = static{value.is.Elem(), value.canAddr}
	case reflect.Map:
		key, of = static{is: value.is.Key()}, static{is: value.is.Elem()}
	default:
		if key = value; !isNumber(value.is) {
			c.errorf(p, "range cannot iterate over a %s", value.is)
		}
		of = value
	}
	values := []static{key, of}[2-min(2, len(p.Decl)):]
	for i, v := range p.Decl {
		if v := c.variable(v.Ident[0]); v != nil && !p.IsAssign {
			v.value = values[i]
		} else if v != nil {
			v.value = static{}
		}
	}
	return of
}

func (c *check) pipe(dot static, p *parse.PipeNode) (value static) {
	if p == nil {
		return value
	}
	for _, command := range p.Cmds {
		value = c.command(dot, command)
	}
	for _, v := range p.Decl {
		if !p.IsAssign {
			c.vars = append(c.vars, staticVariable{v.Ident[0], value})
		} else if old := c.variable(v.Ident[0]); old != nil && old.value != value {
			old.value = static{} // which of them is set is unknown
		}
	}
	return value
}

func (c *check) command(dot static, n *parse.CommandNode) static {
	var args []static
	for _, arg := range n.Args[1:] {
		args = append(args, c.operand(dot, arg))
	}
	if f, ok := n.Args[0].(*parse.IdentifierNode); ok {
		return c.function(f.Ident, args)
	}
	return c.operand(dot, n.Args[0])
}

// function returns the result of a function.
func (c *check) function(name string, args []static) static {
	if f, ok := c.template.funcs[name]; ok {
		return static{is: f.Type().Out(0)}
	}
	switch {
	case name == "index" && len(args) == 2:
		switch of := pointee(args[0]); kindOf(of) {
		case reflect.Slice:
			return static{of.is.Elem(), true}
		case reflect.Map, reflect.Array:
			return static{is: of.is.Elem()}
		}
	case name == "len":
		return static{is: reflect.TypeFor[int]()}
	}
	return static{}
}

func (c *check) operand(dot static, n parse.Node) static {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.StringNode:
		return static{is: reflect.TypeFor[string]()}
	case *parse.NumberNode:
		return static{is: number(n).Type()}
	case *parse.PipeNode:
		return c.pipe(dot, n)
	case *parse.FieldNode:
		return c.fields(n, dot, n.Ident)
	case *parse.ChainNode:
		return c.fields(n, c.operand(dot, n.Node), n.Field)
	case *parse.VariableNode:
		if v := c.variable(n.Ident[0]); v != nil {
			return c.fields(n, v.value, n.Ident[1:])
		}
	case *parse.IdentifierNode:
		return c.function(n.Ident, nil)
	}
	return static{}
}

func (c *check) variable(name string) *staticVariable {
	for i := len(c.vars) - 1; i >= 0; i-- {
		if c.vars[i].name == name {
			return &c.vars[i]
		}
	}
	return nil
}

func (c *check) fields(n parse.Node, value static, chain []string) static {
	for _, name := range chain {
		if value = pointee(value); kindOf(value) == reflect.Invalid {
			return static{}
		}
		value = c.field(n, value, name)
	}
	return value
}

// field is execution.field for a value that is no pointer and no interface.
func (c *check) field(n parse.Node, of static, name string) static {
	if m := c.method(of, name); m != nil {
		return static{is: m.Out(0)}
	}
	receiver := of.is
	if of.canAddr {
		receiver = reflect.PointerTo(receiver)
	}
	if _, has := receiver.MethodByName(name); has {
		return c.errorf(n, "the method %s of %s is not in Options.Methods", name, of.is)
	}
	if of.is.Kind() == reflect.Map && of.is.Key().Kind() == reflect.String {
		return static{is: of.is.Elem()}
	}
	if of.is.Kind() == reflect.Struct {
		if f, ok := of.is.FieldByName(name); ok && f.IsExported() {
			return static{f.Type, of.canAddr}
		}
	}
	return c.errorf(n, "a %s has no field %s", of.is, name)
}

// method is execution.method.
func (c *check) method(of static, name string) reflect.Type {
	receivers := []reflect.Type{of.is}
	if of.canAddr {
		receivers = append(receivers, reflect.PointerTo(of.is))
	}
	for _, receiver := range receivers {
		if m := c.template.methods[method{receiver, name}]; m.IsValid() {
			return m.Type()
		}
	}
	for i := 0; of.is.Kind() == reflect.Struct && i < of.is.NumField(); i++ {
		if f := of.is.Field(i); f.Anonymous && f.IsExported() {
			if embedded := pointee(static{f.Type, of.canAddr}); kindOf(embedded) != reflect.Invalid {
				if m := c.method(embedded, name); m != nil {
					return m
				}
			}
		}
	}
	return nil
}

// pointee follows pointers.
func pointee(v static) static {
	for v.is != nil && v.is.Kind() == reflect.Pointer {
		v = static{v.is.Elem(), true}
	}
	return v
}

// kindOf returns Invalid if a value may have any type.
func kindOf(v static) reflect.Kind {
	if v.is == nil || v.is.Kind() == reflect.Interface {
		return reflect.Invalid
	}
	return v.is.Kind()
}
