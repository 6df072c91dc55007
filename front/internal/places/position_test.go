package places_test

import (
	"errors"
	"testing"

	"github.com/tarehq/tare/front/internal/places"
)

// The text of an error has the line. The innermost position counts.
func TestErrorsNameTheLine(t *testing.T) {
	cause := errors.New("cause")
	for pos, want := range map[string]string{"": "cause", "a:1": "a:1: cause", "a:1:2": "a:1: cause",
		"a b:1.conf:10:20": "a b:1.conf:10: cause", "program": "program: cause"} {
		err := places.At("outer:9:9", places.At(pos, cause))
		if pos == "" {
			err = places.At(pos, cause)
		}
		if err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%q: got %v", pos, err)
		}
		if e, ok := errors.AsType[*places.Error](err); ok != (pos != "") || ok && e.Position() != pos {
			t.Errorf("%q: got %v", pos, e)
		}
	}
	if places.At("a:1", nil) != nil {
		t.Error("no error has become one")
	}
}
