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
func (f fieldNames) allows(name string) bool {
	return roundtrip.PlainName(name) || f != (fieldNames{}) && f.allowsUnusual(name)
}

// also is pass for names that are not plain. A name that some programs take for that of a field that frames or routes messages is not
// passed on.
func (f fieldNames) allowsUnusual(name string) bool {
	if !f.any && !roundtrip.PlainName(strings.ReplaceAll(name, "_", "-")) {
		return false
	}
	switch confused := confusedWith(name); confused {
	case "Content-Length", "Expect", "Host":
		return false
	default:
		return !roundtrip.ConcernsConnection(confused)
	}
}

// takenFor is the name for which programs take one with underscores.
func confusedWith(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// requestField is the value of a client's field as $http_NAME has it. A name with hyphens comes before one with underscores.
func (x *exchange) requestField(name string) []string {
	header := x.clientRequest().Header
	if v, ok := header[name]; ok || x.host == nil || x.host.fields == (fieldNames{}) {
		return v
	}
	switch name {
	case "User-Agent", "Referer", "Via", "X-Forwarded-For": // nginx knows these by their own names only
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

// addOtherFields adds the parameters of fields whose names are not plain. None of them takes the place of another field's.
func (s *upstreamRequest) addUnusualFields(p *fcgiclient.Params) {
	var names []string
	for name := range s.header {
		if !roundtrip.PlainName(name) && s.fields.allows(name) && s.proxy.fastcgi.passesField(name, s.header) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	added := make(map[string]bool)
	for _, name := range names {
		confused := confusedWith(name)
		if confused != name && s.header[confused] != nil || s.proxy.fastcgi.setFields[confused] || confused == "Proxy" || added[confused] {
			continue
		}
		added[confused] = true
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), joinValues(s.header[name]))
	}
}
