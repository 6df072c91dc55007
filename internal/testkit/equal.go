package testkit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Equal reports a value that differs from the wanted one. The words of what name the value:
//
//	testkit.Equal(t, resp.StatusCode, 404, "status of", path)
func Equal[T any](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	name := strings.TrimSpace(fmt.Sprintln(what...))
	if name != "" {
		name += ": "
	}
	t.Errorf("%s%s, want %s", name, shown(got), shown(want))
}

// shown returns a value as text, with strings in quotes.
func shown(v any) string {
	of := reflect.TypeOf(v)
	if of != nil && (of.Kind() == reflect.String || of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.String) {
		return fmt.Sprintf("%.1000q", v)
	}
	return fmt.Sprintf("%+v", v)
}
