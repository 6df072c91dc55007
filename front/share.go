package front

import (
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// shares holds compiled parts by all that they are compiled from. Locations with equal parts share
// them: most parts are inherited.
type shares struct {
	rules     map[*conf.Settings]*rules
	files     map[filesKey]*fileSet
	filters   map[filtersKey]*filters
	hidden    map[hiddenKey]map[string]bool
	responses map[responseKey]*responseRules
}

func newShares() shares {
	return shares{
		rules: make(map[*conf.Settings]*rules), files: make(map[filesKey]*fileSet),
		filters: make(map[filtersKey]*filters), hidden: make(map[hiddenKey]map[string]bool),
		responses: make(map[responseKey]*responseRules),
	}
}

// hiddenKey identifies a set of hidden fields.
type hiddenKey struct {
	fastcgi, bound bool
	hide, show     string
}

// responseKey identifies the responseRules of a Proxy without URI and without rules of its own for
// redirects and cookies.
type responseKey struct {
	hidden      hiddenKey
	ignore      string
	protocol    string
	to          conf.Text
	noRedirects bool
}

// responseKey returns the key of the rules for responses, and whether they have one.
func (p *proxy) responseKey() (key responseKey, ok bool) {
	from := p.from
	if from.URI != nil || from.Redirects != nil || from.CookieDomains != nil || from.CookiePaths != nil ||
		from.CookieFlags != nil {
		return key, false
	}
	return responseKey{hiddenKeyOf(from, p.target.bound != nil), joined(from.Ignore), from.Protocol, from.To,
		from.NoRedirects}, true
}

func hiddenKeyOf(from *conf.Proxy, bound bool) hiddenKey {
	return hiddenKey{from.Protocol == "fastcgi", bound, joined(from.Hide), joined(from.Show)}
}

// joined returns a text that is equal for equal lists only, unless they contain NUL.
func joined[T ~string](list []T) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return string(list[0])
	}
	var b strings.Builder
	for i, element := range list {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(string(element))
	}
	return b.String()
}
