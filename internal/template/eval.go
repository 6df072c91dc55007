package template

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// pipe evaluates a pipeline, and sets its variables.
func (x *execution) pipe(dot reflect.Value, p *parse.PipeNode) (value reflect.Value, err error) {
	if p == nil {
		return value, nil
	}
	for i, c := range p.Cmds {
		final := []reflect.Value{value}
		if value, err = x.command(dot, c, final[:min(i, 1)]); err != nil {
			return value, x.at(c, err)
		}
		if value.Kind() == reflect.Interface && value.NumMethod() == 0 {
			value = value.Elem()
		}
	}
	for _, v := range p.Decl {
		if p.IsAssign {
			x.set(v.Ident[0], value)
		} else {
			x.vars = append(x.vars, variable{v.Ident[0], value})
		}
	}
	return value, nil
}

// arguments are those of a function or method: the nodes after its name, and the result of the
// command before it in the pipeline, if there is one.
type arguments struct {
	nodes []parse.Node
	final []reflect.Value
}

func (a arguments) any() bool { return len(a.nodes)+len(a.final) > 0 }

// command evaluates a command of a pipeline.
func (x *execution) command(dot reflect.Value, c *parse.CommandNode, final []reflect.Value) (reflect.Value, error) {
	args := arguments{c.Args[1:], final}
	switch n := c.Args[0].(type) {
	case *parse.FieldNode:
		return x.fields(dot, dot, n.Ident, args)
	case *parse.ChainNode:
		value, err := x.operand(dot, n.Node)
		if err != nil {
			return value, err
		}
		return x.fields(dot, value, n.Field, args)
	case *parse.VariableNode:
		if len(n.Ident) > 1 {
			value, err := x.variable(n.Ident[0])
			if err != nil {
				return value, err
			}
			return x.fields(dot, value, n.Ident[1:], args)
		}
	case *parse.IdentifierNode:
		return x.function(dot, n.Ident, args)
	case *parse.NilNode:
		return reflect.Value{}, errors.New("nil is not a command")
	}
	if args.any() {
		return reflect.Value{}, fmt.Errorf("%s is not a function", c.Args[0])
	}
	return x.operand(dot, c.Args[0])
}

// operand evaluates a node without arguments.
func (x *execution) operand(dot reflect.Value, n parse.Node) (reflect.Value, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return reflect.Value{}, nil
	case *parse.BoolNode:
		return reflect.ValueOf(n.True), nil
	case *parse.StringNode:
		return reflect.ValueOf(n.Text), nil
	case *parse.NumberNode:
		return number(n), nil
	case *parse.PipeNode:
		return x.pipe(dot, n)
	case *parse.VariableNode:
		value, err := x.variable(n.Ident[0])
		if err != nil || len(n.Ident) == 1 {
			return value, err
		}
		return x.fields(dot, value, n.Ident[1:], arguments{})
	case *parse.FieldNode:
		return x.fields(dot, dot, n.Ident, arguments{})
	case *parse.ChainNode:
		value, err := x.operand(dot, n.Node)
		if err != nil {
			return value, err
		}
		return x.fields(dot, value, n.Field, arguments{})
	case *parse.IdentifierNode:
		return x.function(dot, n.Ident, arguments{})
	}
	return reflect.Value{}, fmt.Errorf("invalid operand %s", n)
}

// number returns a constant. One with a fraction or an exponent is a float64, as in Go.
func number(n *parse.NumberNode) reflect.Value {
	isRune, isHex := strings.HasPrefix(n.Text, "'"), strings.ContainsAny(n.Text, "xX")
	switch {
	case n.IsFloat && !isRune && !isHex && strings.ContainsAny(n.Text, ".eE"):
		return reflect.ValueOf(n.Float64)
	case n.IsInt:
		return reflect.ValueOf(int(n.Int64))
	case n.IsUint:
		return reflect.ValueOf(n.Uint64)
	case n.IsFloat:
		return reflect.ValueOf(n.Float64)
	}
	return reflect.ValueOf(n.Complex128)
}

func (x *execution) variable(name string) (reflect.Value, error) {
	for _, v := range slices.Backward(x.vars) {
		if v.name == name {
			return v.value, nil
		}
	}
	return reflect.Value{}, fmt.Errorf("undefined variable %s", name)
}

// fields evaluates a chain such as .A.B.C. The arguments are those of the last one.
func (x *execution) fields(dot, value reflect.Value, chain []string, args arguments) (_ reflect.Value, err error) {
	for i, name := range chain {
		of := arguments{}
		if i == len(chain)-1 {
			of = args
		}
		if value, err = x.field(dot, value, name, of); err != nil {
			return value, err
		}
	}
	return value, nil
}

// field evaluates a method, a field of a struct, or a key of a map.
func (x *execution) field(dot, of reflect.Value, name string, args arguments) (reflect.Value, error) {
	value, isNil := indirect(of)
	if !value.IsValid() {
		return value, fmt.Errorf("no value has the field %s", name)
	}
	if receiver, m := x.method(value, name); m.IsValid() {
		return x.call(dot, name, m, []reflect.Value{receiver}, args)
	}
	switch {
	case value.Kind() == reflect.Struct:
		if f, ok := value.Type().FieldByName(name); ok && f.IsExported() {
			if args.any() {
				return value, fmt.Errorf("%s is not a method, but has arguments", name)
			}
			return value.FieldByIndexErr(f.Index)
		}
	case value.Kind() == reflect.Map && value.Type().Key().Kind() == reflect.String && !args.any():
		if found := value.MapIndex(reflect.ValueOf(name).Convert(value.Type().Key())); found.IsValid() {
			return found, nil
		}
		return value, fmt.Errorf("map has no entry for key %q", name)
	case isNil:
		return value, fmt.Errorf("nil pointer evaluating %s.%s", value.Type(), name)
	}
	return value, fmt.Errorf("can't evaluate field %s in type %s", name, value.Type())
}

// method returns a method of a value or of a struct that is embedded in it, and its receiver.
func (x *execution) method(value reflect.Value, name string) (receiver, m reflect.Value) {
	if m := x.template.methods[method{value.Type(), name}]; m.IsValid() {
		return value, m
	}
	if value.CanAddr() {
		if m := x.template.methods[method{reflect.PointerTo(value.Type()), name}]; m.IsValid() {
			return value.Addr(), m
		}
	}
	if value.Kind() != reflect.Struct {
		return value, m
	}
	for i := range value.NumField() {
		if f := value.Type().Field(i); f.Anonymous && f.IsExported() {
			if embedded, _ := indirect(value.Field(i)); embedded.IsValid() {
				if receiver, m := x.method(embedded, name); m.IsValid() {
					return receiver, m
				}
			}
		}
	}
	return value, m
}

// indirect follows pointers and interfaces. It stops at a nil pointer.
func indirect(v reflect.Value) (_ reflect.Value, isNil bool) {
	for ; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; v = v.Elem() {
		if v.IsNil() {
			return v, true
		}
	}
	return v, false
}

// function calls a function.
func (x *execution) function(dot reflect.Value, name string, args arguments) (reflect.Value, error) {
	if f, ok := x.template.funcs[name]; ok {
		return x.call(dot, name, f, nil, args)
	}
	if name == "and" || name == "or" {
		return x.logic(dot, name == "or", args)
	}
	var values []reflect.Value
	for _, n := range args.nodes {
		v, err := x.operand(dot, n)
		if err != nil {
			return v, x.at(n, err)
		}
		values = append(values, v)
	}
	value, err := builtins()[name](append(values, args.final...))
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return value, err
}

// logic evaluates the arguments of and, or or until the result is known.
func (x *execution) logic(dot reflect.Value, until bool, args arguments) (value reflect.Value, err error) {
	if !args.any() {
		return value, errors.New("and, or: no arguments")
	}
	for _, n := range args.nodes {
		if value, err = x.operand(dot, n); err != nil || isTrue(value) == until {
			return value, err
		}
	}
	if len(args.final) > 0 {
		value = args.final[0]
	}
	return value, nil
}

// call calls a function, or a method with its receiver.
func (x *execution) call(dot reflect.Value, name string, f reflect.Value, in []reflect.Value, args arguments) (
	value reflect.Value, err error) {
	t, fixed := f.Type(), f.Type().NumIn()
	given := len(in) + len(args.nodes) + len(args.final)
	if t.IsVariadic() {
		fixed--
	}
	if given < fixed || given > fixed && !t.IsVariadic() {
		return value, fmt.Errorf("%s: %d arguments, want %d", name, given, fixed)
	}
	values := slices.Clone(in)
	for _, n := range args.nodes {
		v, err := x.operand(dot, n)
		if err != nil {
			return v, x.at(n, err)
		}
		values = append(values, v)
	}
	values = append(values, args.final...)
	for i := range values {
		want := t.In(min(i, t.NumIn()-1))
		if i >= fixed {
			want = want.Elem()
		}
		if values[i], err = convert(values[i], want); err != nil {
			return value, fmt.Errorf("%s: %w", name, err)
		}
	}
	if value, err = result(f, values); err != nil {
		return value, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// result calls a function. As in text/template, a panic becomes an error.
func result(f reflect.Value, in []reflect.Value) (value reflect.Value, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	out := f.Call(in)
	if len(out) > 1 && !out[1].IsNil() {
		return value, out[1].Interface().(error)
	}
	return out[0], nil
}

// convert converts an argument to the type of a parameter. Constants have no type of their own, so
// numbers are converted if their value stays the same.
func convert(v reflect.Value, to reflect.Type) (reflect.Value, error) {
	switch {
	case !v.IsValid():
		switch to.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
			return reflect.Zero(to), nil
		}
		return v, fmt.Errorf("nil is not a %s", to)
	case v.Type().AssignableTo(to):
		return v, nil
	case v.Kind() == reflect.Interface && !v.IsNil():
		return convert(v.Elem(), to)
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem().AssignableTo(to):
		return v.Elem(), nil
	case v.CanAddr() && reflect.PointerTo(v.Type()).AssignableTo(to):
		return v.Addr(), nil
	case isNumber(v.Type()) && isNumber(to):
		if converted := v.Convert(to); converted.Convert(v.Type()).Equal(v) {
			return converted, nil
		}
	}
	return v, fmt.Errorf("a %s is not a %s", v.Type(), to)
}

func isNumber(t reflect.Type) bool { return reflect.Int <= t.Kind() && t.Kind() <= reflect.Float64 }
