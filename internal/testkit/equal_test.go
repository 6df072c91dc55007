package testkit

import (
	"fmt"
	"testing"
)

// reported records the errors of a test.
type reported struct {
	testing.TB
	text string
}

func (*reported) Helper() {}

func (r *reported) Errorf(format string, a ...any) { r.text += fmt.Sprintf(format, a...) }

// Equal names the value, and shows both.
func TestEqualReportsDifferences(t *testing.T) {
	r := new(reported)
	Equal(r, []int{1}, []int{1}, "the same")
	Equal(r, "a", "b", "letter", 7)
	Equal(r, 1, 2)
	if want := `letter 7: "a", want "b"` + "1, want 2"; r.text != want {
		t.Errorf("%s, want %s", r.text, want)
	}
}
