package front

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/fcgiclient"
	"github.com/tarehq/tare/internal/roundtrip"
)

// fieldNames says which fields of clients are passed on besides those whose names have letters, digits and hyphens only.
type fieldNames struct {
	underscores bool
	any         bool // that HTTP allows
}

// pass reports whether a field with a name is passed on.
func (f fieldNames) pass(name string) bool {
	return roundtrip.PlainName(name) || f != (fieldNames{}) && f.also(name)
}

// also is pass for names that are not plain. A name that some programs take for that of a field that frames or routes messages is not
// passed on.
func (f fieldNames) also(name string) bool {
	if !f.any && !roundtrip.PlainName(strings.ReplaceAll(name, "_", "-")) {
		return false
	}
	switch as := takenFor(name); as {
	case "Content-Length", "Expect", "Host":
		return false
	default:
		return !roundtrip.ConcernsConnection(as)
	}
}

// takenFor is the name for which programs take one with underscores.
func takenFor(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// requestField is the value of a client's field as $http_NAME has it. A name with hyphens comes before one with underscores.
func (x *exchange) requestField(name string) []string {
	header := x.client().Header
	if v, ok := header[name]; ok || x.host == nil || x.host.fields == (fieldNames{}) {
		return v
	}
	switch name {
	case "User-Agent", "Referer", "Via", "X-Forwarded-For": // nginx knows these by their own names only
		return nil
	}
	found := ""
	for other := range header {
		if takenFor(other) == name && x.host.fields.pass(other) && (found == "" || other < found) {
			found = other
		}
	}
	return header[found]
}

// addOtherFields adds the parameters of fields whose names are not plain. None of them takes the place of another field's.
func (s *sending) addOtherFields(p *fcgiclient.Params) {
	var names []string
	for name := range s.header {
		if !roundtrip.PlainName(name) && s.fields.pass(name) && s.pass.cgi.tells(name, s.header) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	added := make(map[string]bool)
	for _, name := range names {
		as := takenFor(name)
		if as != name && s.header[as] != nil || s.pass.cgi.given[as] || as == "Proxy" || added[as] {
			continue
		}
		added[as] = true
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), joined(s.header[name]))
	}
}
