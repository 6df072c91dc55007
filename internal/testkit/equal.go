package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Equal reports a value that differs from the wanted one. The words of what name the value:
//
//	testkit.Equal(t, resp.StatusCode, 404, "status of", path)
func Equal[T any](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s%s, want %s", named(what), shown(got), shown(want))
	}
}

// Between reports a value less than least or greater than most. The words of what name the value.
func Between[T cmp.Ordered](t testing.TB, got, least, most T, what ...any) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s%v, want %v to %v", named(what), got, least, most)
	}
}

// Contains reports a text without a part. The words of what name the text.
func Contains(t testing.TB, text, part string, what ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s%s, want %s in it", named(what), shown(text), shown(part))
	}
}

// Lacks reports a text with a part. The words of what name the text.
func Lacks(t testing.TB, text, part string, what ...any) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%s%s, want no %s in it", named(what), shown(text), shown(part))
	}
}

// Matches reports a text that a regular expression does not match. The words of what name the text.
func Matches(t testing.TB, text, pattern string, what ...any) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s%s, want a match of %s", named(what), shown(text), pattern)
	}
}

// Fields reports fields of a header that differ from the wanted ones, a list of names and values.
// The values of several lines are joined by commas. The word what names the header.
func Fields(t testing.TB, header map[string][]string, what string, fields ...string) {
	t.Helper()
	for i := 0; i < len(fields); i += 2 {
		Equal(t, strings.Join(header[fields[i]], ", "), fields[i+1], what, fields[i])
	}
}

// Fails reports a call without an error, or whose error does not contain a text. The words of what
// name the call:
//
//	testkit.Fails(strconv.Atoi("x"))(t, "invalid syntax")
func Fails[T any](_ T, err error) func(t testing.TB, text string, what ...any) {
	return func(t testing.TB, text string, what ...any) {
		t.Helper()
		Error(t, err, text, what...)
	}
}

// Error is Fails for a call that returns nothing but an error.
func Error(t testing.TB, err error, text string, what ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s%v, want an error with %q", named(what), err, text)
	}
}

// Is reports an error in which errors.Is does not find another one. The words of what name the call.
func Is(t testing.TB, err, target error, what ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s%v, want %v", named(what), err, target)
	}
}

// As reports an error in which errors.AsType finds no E, or one whose text does not contain a text.
// The words of what name the call.
func As[E error](t testing.TB, err error, text string, what ...any) {
	t.Helper()
	if e, ok := errors.AsType[E](err); !ok || !strings.Contains(e.Error(), text) {
		t.Errorf("%s%v, want a %v with %q", named(what), err, reflect.TypeFor[E](), text)
	}
}

// FailsWith is Is for a call that also returns a value, as Fails is Error.
func FailsWith[T any](_ T, err error) func(t testing.TB, target error, what ...any) {
	return func(t testing.TB, target error, what ...any) {
		t.Helper()
		Is(t, err, target, what...)
	}
}

// Reads reads from r to its end, and reports an error, or content that differs from the wanted one.
// The words of what name it.
func Reads(t testing.TB, r io.Reader, want string, what ...any) {
	t.Helper()
	b, err := io.ReadAll(r)
	wasRead(t, string(b), err, want, what)
}

// Receives is Reads for the next bytes, as many as are wanted.
func Receives(t testing.TB, r io.Reader, want string, what ...any) {
	t.Helper()
	b := make([]byte, len(want))
	n, err := io.ReadFull(r, b)
	wasRead(t, string(b[:n]), err, want, what)
}

func wasRead(t testing.TB, got string, err error, want string, what []any) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s%s, %v, want %s", named(what), shown(got), err, shown(want))
	}
}

// named returns words that name what follows.
func named(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintln(what...)) + ": "
}

func shown(v any) string {
	of := reflect.TypeOf(v)
	if of != nil && (of.Kind() == reflect.String || of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.String) {
		return fmt.Sprintf("%.1000q", v)
	}
	return fmt.Sprintf("%+v", v)
}
