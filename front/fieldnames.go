package front

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/client"
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

// requestField returns the value of $http_NAME. A name with hyphens comes before one with
// underscores.
func (x *exchange) requestField(name string) []string {
	header := x.clientRequest().Header
	if v, ok := header[name]; ok || x.host == nil || x.host.fields == (fieldNames{}) {
		return v
	}
	switch name {
	// nginx finds these by their exact names only
	case "User-Agent", "Referer", "Via", "X-Forwarded-For":
		return nil
	}
	found := ""
	for other := range header {
		if confusedWith(other) == name && x.host.fields.allows(other) && (found == "" || other < found) {
			found = other
		}
	}
	return header[found]
}

// addUnusualFields adds parameters for fields with unusual names. They never replace another
// field's.
func (g *fastcgiRules) addUnusualFields(p *client.Params, header http.Header, fields fieldNames) {
	if fields == (fieldNames{}) {
		return
	}
	var names []string
	for name := range header {
		if !http1.PlainName(name) && fields.allows(name) && g.passesField(name, header) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	added := make(map[string]bool)
	for _, name := range names {
		confused := confusedWith(name)
		if confused != name && header[confused] != nil || g.setFields[confused] ||
			confused == "Proxy" || added[confused] {
			continue
		}
		added[confused] = true
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), joinValues(header[name]))
	}
}
