package message

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// FieldNames defines which fields of clients are forwarded, besides those whose names have letters,
// digits and hyphens only.
type FieldNames struct {
	Underscores bool
	Any         bool // any name that HTTP allows
}

// Allows reports whether a field is forwarded.
func (f FieldNames) Allows(name string) bool {
	return http1.PlainName(name) || f != (FieldNames{}) && f.allowsUnusual(name)
}

// allowsUnusual is allows for other names. It rejects those that programs confuse with fields for
// framing or routing.
func (f FieldNames) allowsUnusual(name string) bool {
	if !f.Any && !http1.PlainName(strings.ReplaceAll(name, "_", "-")) {
		return false
	}
	switch confused := ConfusedWith(name); confused {
	case "Content-Length", "Expect", "Host":
		return false
	default:
		return !http1.ConcernsConnection(confused)
	}
}

// Unusual returns the names of unusual fields in a header that are forwarded, sorted.
func (f FieldNames) Unusual(header http.Header) (names []string) {
	if f == (FieldNames{}) {
		return nil
	}
	for name := range header {
		if !http1.PlainName(name) && f.allowsUnusual(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ConfusedWith returns the name that programs confuse a name with underscores with.
func ConfusedWith(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
