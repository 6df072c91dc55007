package front

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// fieldNames defines which fields of clients are forwarded, besides those whose names have letters,
// digits and hyphens only.
type fieldNames struct {
	underscores bool
	any         bool // any name that HTTP allows
}

// allows reports whether a field is forwarded.
func (f fieldNames) allows(name string) bool {
	return http1.PlainName(name) || f != (fieldNames{}) && f.allowsUnusual(name)
}

// allowsUnusual is allows for other names. It rejects those that programs confuse with fields for
// framing or routing.
func (f fieldNames) allowsUnusual(name string) bool {
	if !f.any && !http1.PlainName(strings.ReplaceAll(name, "_", "-")) {
		return false
	}
	switch confused := confusedWith(name); confused {
	case "Content-Length", "Expect", "Host":
		return false
	default:
		return !http1.ConcernsConnection(confused)
	}
}

// confusedWith returns the name that programs confuse a name with underscores with.
func confusedWith(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
