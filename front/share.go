package front

import (
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// shares holds compiled parts by what they are compiled from. Locations with equal parts share
// them: most parts are inherited.
type shares struct {
	files     map[filesKey]*fileSet
	responses map[responseKey]*responseRules
	filters   map[time.Duration]*filters // those that only have a sendTimeout
}

func newShares() shares {
	return shares{
		files:     make(map[filesKey]*fileSet),
		responses: make(map[responseKey]*responseRules), filters: make(map[time.Duration]*filters),
	}
}

// filesKey identifies the fileSet of a location without files: variables and error pages refer to
// its root and types.
type filesKey struct {
	root          conf.Text
	index         string
	defaultIndex  bool
	listing       listing
	types         *mediaTypes
	noEtag        bool
	modifiedExact bool
	maxRanges     int
}

// filesKey returns the key of a location's files, and whether it has one.
func (f *fileSet) filesKey(from *conf.Location) (key filesKey, ok bool) {
	s := &from.Files
	if servesFiles(from) || from.TryFiles != nil || s.Alias != "" || s.RandomIndex || f.precompressed != nil ||
		s.DisableSymlinks != "" {
		return key, false
	}
	return filesKey{s.Root, joined(s.Index), s.Index == nil, f.listing, f.types, s.NoEtag,
		from.ModifiedSince == "", from.MaxRanges}, true
}

// responseKey identifies the responseRules of a Proxy without URI and without rules of its own for
// redirects and cookies.
type responseKey struct {
	hide, show  string
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
	return responseKey{joined(from.Hide), joined(from.Show), joined(from.Ignore), from.Protocol, from.To,
		from.NoRedirects}, true
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
