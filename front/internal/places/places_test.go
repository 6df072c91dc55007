package places_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/internal/testkit"
)

// grow fills a value with one element of each kind, a few levels deep, and numbers the Settings in
// it.
func grow(v reflect.Value, depth int, settings *int) {
	if v.Type() == reflect.TypeFor[conf.Settings]() {
		*settings++
		v.FieldByName("MaxBody").SetInt(int64(*settings))
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Type.PkgPath() != "crypto/tls" {
				grow(v.Field(i), depth, settings)
			}
		}
	case reflect.Pointer:
		if depth > 0 && v.Type().Elem().PkgPath() == reflect.TypeFor[conf.Config]().PkgPath() {
			v.Set(reflect.New(v.Type().Elem()))
			grow(v.Elem(), depth-1, settings)
		}
	case reflect.Slice:
		if depth == 0 {
			return
		}
		if v.Type().Elem() == reflect.TypeFor[conf.Step]() {
			growSteps(v, depth, settings)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			grow(v.Index(i), depth-1, settings)
		}
	}
}

// growSteps fills steps with one of each kind.
func growSteps(v reflect.Value, depth int, settings *int) {
	for _, s := range []conf.Step{conf.Set{}, conf.If{}, conf.Rewrite{}, conf.Return{}, conf.Break{}} {
		one := reflect.New(reflect.TypeOf(s)).Elem()
		grow(one, depth-1, settings)
		v.Set(reflect.Append(v, one))
	}
}

// Every Settings of a Config is visited once. The test fails for a new field with Settings that is
// not visited.
func TestPlacesVisitsAllSettings(t *testing.T) {
	var c conf.Config
	var settings int
	grow(reflect.ValueOf(&c).Elem(), 6, &settings)
	seen := make(map[int64]bool)
	for p := range places.Of(&c) {
		n := p.Settings.MaxBody // 0 where the depth has ended
		if seen[n] && n != 0 || p.Host == nil {
			t.Fatalf("the place with the number %d is visited twice, or has no host", n)
		}
		seen[n] = true
	}
	if delete(seen, 0); len(seen) != settings || settings < 100 {
		t.Errorf("%d places are visited, want %d", len(seen), settings)
	}
	for range places.Of(&c) {
		break // which ends the visit
	}
}

// The text of an error has the line. The innermost position counts.
func TestErrorsNameTheLine(t *testing.T) {
	cause := errors.New("cause")
	for pos, want := range map[string]string{"": "cause", "a:1": "a:1: cause", "a:1:2": "a:1: cause",
		"a b:1.conf:10:20": "a b:1.conf:10: cause", "program": "program: cause"} {
		err := places.At("outer:9:9", places.At(pos, cause))
		if pos == "" {
			err = places.At(pos, cause)
		}
		testkit.Equal(t, err.Error(), want, pos)
		testkit.Is(t, err, cause, pos)
		if e, ok := errors.AsType[*places.Error](err); ok != (pos != "") || ok && e.Position() != pos {
			t.Errorf("%q: got %v", pos, e)
		}
	}
	testkit.Equal(t, places.At("a:1", nil), nil)
}
