package template

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// builtins returns the functions that every template has. and and or are evaluated elsewhere,
// because they need not evaluate all arguments.
func builtins() map[string]func(args []reflect.Value) (reflect.Value, error) {
	text := func(print func(...any) string) func([]reflect.Value) (reflect.Value, error) {
		return func(args []reflect.Value) (reflect.Value, error) { return reflect.ValueOf(print(plain(args)...)), nil }
	}
	return map[string]func([]reflect.Value) (reflect.Value, error){
		"and": nil, "or": nil,
		"not":     not,
		"len":     length,
		"index":   index,
		"print":   text(fmt.Sprint),
		"println": text(fmt.Sprintln),
		"printf":  printf,
		"eq":      equalsAny,
		"ne":      notEqual,
		"lt":      ordered(func(c int) bool { return c < 0 }),
		"le":      ordered(func(c int) bool { return c <= 0 }),
		"gt":      negated(ordered(func(c int) bool { return c <= 0 })),
		"ge":      negated(ordered(func(c int) bool { return c < 0 })),
	}
}

var (
	errOneArgument  = errors.New("want one argument")
	errTwoArguments = errors.New("want two arguments")
)

// isTrue reports whether a value is not the zero value of its type, or is a struct.
func isTrue(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() > 0
	case reflect.Struct:
		return true
	case reflect.Float32, reflect.Float64: // IsZero is false for -0
		return v.Float() != 0
	}
	return !v.IsZero()
}

func not(args []reflect.Value) (reflect.Value, error) {
	if len(args) != 1 {
		return reflect.Value{}, errOneArgument
	}
	return reflect.ValueOf(!isTrue(args[0])), nil
}

func length(args []reflect.Value) (reflect.Value, error) {
	if len(args) != 1 {
		return reflect.Value{}, errOneArgument
	}
	v, _ := indirect(args[0])
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return reflect.ValueOf(v.Len()), nil
	}
	return v, fmt.Errorf("%s has no length", textOf(v))
}

// index returns an element of an element … of a value. That of a missing key is the zero value.
func index(args []reflect.Value) (reflect.Value, error) {
	if len(args) == 0 {
		return reflect.Value{}, errOneArgument
	}
	v := args[0]
	for _, at := range args[1:] {
		v, _ = indirect(v)
		at, _ = indirect(at)
		switch v.Kind() {
		case reflect.Map:
			key, err := convert(at, v.Type().Key())
			if err != nil {
				return v, err
			}
			found := v.MapIndex(key)
			if !found.IsValid() {
				found = reflect.Zero(v.Type().Elem())
			}
			v = found
		case reflect.Array, reflect.Slice, reflect.String:
			i, err := convert(at, reflect.TypeFor[int]())
			if err != nil {
				return v, err
			}
			if i.Int() < 0 || i.Int() >= int64(v.Len()) {
				return v, fmt.Errorf("index %d is out of range", i.Int())
			}
			v = v.Index(int(i.Int()))
		default:
			return v, fmt.Errorf("%s has no elements", textOf(v))
		}
	}
	return v, nil
}

// plain returns the values for package fmt.
func plain(args []reflect.Value) (all []any) {
	for _, v := range args {
		if v, _ = indirectInterface(v); v.IsValid() {
			all = append(all, v.Interface())
		} else {
			all = append(all, nil)
		}
	}
	return all
}

// indirectInterface returns the value in an interface.
func indirectInterface(v reflect.Value) (_ reflect.Value, isNil bool) {
	if v.Kind() == reflect.Interface {
		return v.Elem(), v.IsNil()
	}
	return v, false
}

func printf(args []reflect.Value) (reflect.Value, error) {
	if len(args) == 0 || args[0].Kind() != reflect.String {
		return reflect.Value{}, errors.New("the first argument is not a format")
	}
	return reflect.ValueOf(fmt.Sprintf(args[0].String(), plain(args[1:])...)), nil
}

// equalsAny reports whether the first argument equals one of the others.
func equalsAny(args []reflect.Value) (reflect.Value, error) {
	if len(args) < 2 {
		return reflect.Value{}, errTwoArguments
	}
	for _, other := range args[1:] {
		same, err := equal(args[0], other)
		if err != nil || same {
			return reflect.ValueOf(same), err
		}
	}
	return reflect.ValueOf(false), nil
}

func notEqual(args []reflect.Value) (reflect.Value, error) {
	if len(args) != 2 {
		return reflect.Value{}, errTwoArguments
	}
	same, err := equal(args[0], args[1])
	return reflect.ValueOf(!same), err
}

// negated returns a function with the opposite result.
func negated(f func([]reflect.Value) (reflect.Value, error)) func([]reflect.Value) (reflect.Value, error) {
	return func(args []reflect.Value) (reflect.Value, error) {
		holds, err := f(args)
		if err != nil {
			return holds, err
		}
		return reflect.ValueOf(!holds.Bool()), nil
	}
}

// equal compares what compare does, and other values of the same kind. A nil of any type equals the
// constant.
func equal(a, b reflect.Value) (bool, error) {
	a, _ = indirectInterface(a)
	b, _ = indirectInterface(b)
	switch {
	case !a.IsValid() || !b.IsValid():
		return isNil(a) == isNil(b), nil
	case a.Kind() == reflect.String || isNumber(a.Type()):
		c, err := compare(a, b)
		return c == 0 && !isNaN(a) && !isNaN(b), err
	case a.Kind() != b.Kind():
	case isNil(a) || isNil(b):
		return isNil(a) == isNil(b), nil
	case a.Comparable() && b.Comparable():
		return a.Interface() == b.Interface(), nil
	}
	return false, fmt.Errorf("incompatible types for comparison: %s and %s", a.Type(), b.Type())
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

func isNaN(v reflect.Value) bool { return v.CanFloat() && math.IsNaN(v.Float()) }

// ordered returns a function of two arguments that compares them. It does not hold for NaN.
func ordered(holds func(c int) bool) func([]reflect.Value) (reflect.Value, error) {
	return func(args []reflect.Value) (reflect.Value, error) {
		if len(args) != 2 {
			return reflect.Value{}, errTwoArguments
		}
		a, _ := indirectInterface(args[0])
		b, _ := indirectInterface(args[1])
		if !a.IsValid() || !b.IsValid() {
			return reflect.Value{}, errors.New("nil has no order")
		}
		c, err := compare(a, b)
		return reflect.ValueOf(holds(c) && !isNaN(a) && !isNaN(b)), err
	}
}

// compare compares strings, or numbers of the same kind. Whether they are signed does not matter.
func compare(a, b reflect.Value) (int, error) {
	switch {
	case a.Kind() == reflect.String && b.Kind() == reflect.String:
		return strings.Compare(a.String(), b.String()), nil
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int()), nil
	case a.CanUint() && b.CanUint():
		return cmp.Compare(a.Uint(), b.Uint()), nil
	case a.CanInt() && b.CanUint():
		if a.Int() < 0 {
			return -1, nil
		}
		return cmp.Compare(uint64(a.Int()), b.Uint()), nil
	case a.CanUint() && b.CanInt():
		c, err := compare(b, a)
		return -c, err
	case a.CanFloat() && b.CanFloat():
		return cmp.Compare(a.Float(), b.Float()), nil
	}
	return 0, fmt.Errorf("incompatible types for comparison: %s and %s", a.Type(), b.Type())
}
