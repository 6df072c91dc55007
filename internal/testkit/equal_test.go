package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
)

// reported records the errors of a test.
type reported struct {
	testing.TB
	text string
}

func (*reported) Helper() {}

func (r *reported) Errorf(format string, a ...any) { r.text += fmt.Sprintf(format, a...) + "\n" }

func TestComparisonsReportDifferences(t *testing.T) {
	r := new(reported)
	Equal(r, []int{1}, []int{1}, "the same")
	Contains(r, "text", "ex", "the same")
	Error(r, errors.New("one"), "one", "the same")
	Is(r, fmt.Errorf("two: %w", fs.ErrExist), fs.ErrExist, "the same")
	Equal(r, "a", "b", "letter", 7)
	Equal(r, 1, 2)
	Contains(r, "text", "xt.")
	Fields(r, http.Header{"A": {"b", "c"}, "D": {"e"}}, "the head", "A", "b, c", "D", "f", "G", "")
	Error(r, nil, "one", "a call")
	Reads(r, strings.NewReader("hello"), "hello", "the same")
	Reads(r, strings.NewReader("hello"), "hell", "body", 7)
	Receives(r, strings.NewReader("hello"), "hell", "the same")
	Receives(r, strings.NewReader("hello"), "hello!")
	Fails(3, errors.New("one"))(r, "two")
	FailsWith(3, errors.New("one"))(r, fs.ErrExist, "a call")
	Between(r, 2, 1, 2, "the same")
	Between(r, 3, 1, 2, "a value")
	Lacks(r, "text", "y", "the same")
	Lacks(r, "text", "ex", "a text")
	As[*fs.PathError](r, &fs.PathError{Op: "open", Err: fs.ErrExist}, "open", "the same")
	As[*fs.PathError](r, &fs.PathError{Op: "open", Err: fs.ErrExist}, "stat")
	const want = `letter 7: "a", want "b"
1, want 2
"text", want "xt." in it
the head D: "e", want "f"
a call: <nil>, want an error with "one"
body 7: "hello", <nil>, want "hell"
"hello", unexpected EOF, want "hello!"
one, want an error with "two"
a call: one, want file already exists
a value: 3, want 1 to 2
a text: "text", want no "ex" in it
open : file already exists, want a *fs.PathError with "stat"
`
	if r.text != want {
		t.Errorf("%s\nwant\n%s", r.text, want)
	}
}
