package accesslog_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/accesslog"
)

// Text of a client never ends a field or a line.
func FuzzEscape(f *testing.F) {
	f.Add("/\" 200 1\n\x00\x7f\\é")
	f.Add("\"\r\n\t\\ \xff ü\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		if b := accesslog.AppendJSON([]byte{'"'}, text); !json.Valid(append(b, '"')) {
			t.Errorf("not JSON: %q", b)
		}
		for _, c := range accesslog.AppendEscaped(nil, text) {
			if c < ' ' || c > '~' || c == '"' {
				t.Errorf("%q is escaped with %q in it", text, c)
			}
		}
	})
}

// The line about lost lines has the format of any other.
func TestLineAboutLostLinesIsParsable(t *testing.T) {
	why := errors.New(`disk "full"`)
	want := `^- - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "12 lines lost: disk \\x22full\\x22" 0 - "-" "-"\n$`
	if got := string(accesslog.Lost(12, why)); !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%q", got)
	}
	var object struct {
		Lost int
		Why  string
	}
	line := accesslog.LostJSON(12, why)
	if err := json.Unmarshal(line, &object); err != nil || object.Lost != 12 || object.Why != why.Error() ||
		!strings.HasSuffix(string(line), "}\n") {
		t.Errorf("%+v, %v", object, err)
	}
}
