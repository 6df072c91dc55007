package front

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/replace"
)

// maxSubstitutions is nginx's maximum.
const maxSubstitutions = 255

// subFilter is a SubFilter, compiled.
type subFilter struct {
	from, to     []text
	matcher      *replace.Matcher // nil if from has variables
	types        bodyTypes
	once         bool
	keepModified bool
}

// subFilter compiles a SubFilter.
func (c *compiler) subFilter(s *conf.SubFilter) (*subFilter, error) {
	if s == nil || len(s.Substitutions) == 0 {
		return nil, nil
	}
	if len(s.Substitutions) > maxSubstitutions {
		return nil, fmt.Errorf("sub_filter: %d strings: want at most %d", len(s.Substitutions), maxSubstitutions)
	}
	out := &subFilter{types: newBodyTypes(s.Types), once: !s.Every, keepModified: s.KeepModified}
	out.from, out.to = make([]text, len(s.Substitutions)), make([]text, len(s.Substitutions))
	fixed := make([]string, len(s.Substitutions))
	varies := false
	for i, p := range s.Substitutions {
		var errs [2]error
		out.from[i], errs[0] = c.text(p.From)
		out.to[i], errs[1] = c.text(p.To)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("sub_filter: %w", err)
		}
		if out.from[i].empty() {
			return nil, errors.New("sub_filter: empty search string")
		}
		varies = varies || !out.from[i].constant()
		fixed[i] = string(p.From)
	}
	if !varies {
		out.matcher = replace.NewMatcher(fixed)
	}
	return out, nil
}

// neededBytes returns how much of the body is needed to decide whether anything is replaced.
func (s *subFilter) neededBytes(w *writer) int64 {
	header := w.Header()
	if _, typed := header["Content-Type"]; typed || !bodyAllowed(w.status) || !s.mayReplace(header) {
		return 0
	}
	if length, known := declaredLength(header); known {
		return min(sniffLen, length)
	}
	return sniffLen
}

// mayReplace reports whether the response may have text to replace. nginx also searches encoded
// bodies, where matches are accidental.
func (s *subFilter) mayReplace(header http.Header) bool {
	length, known := declaredLength(header)
	return header.Get("Content-Encoding") == "" && (!known || length > 0)
}

// start starts replacing in a response of a type, and changes its header.
func (s *subFilter) start(w *writer, contentType string) {
	header := w.Header()
	if !s.mayReplace(header) || !s.types.contains(contentType) {
		return
	}
	if w.replacer = s.replacer(w); w.replacer == nil {
		return
	}
	delete(header, "Content-Length")
	delete(header, "Accept-Ranges")
	if s.keepModified {
		weakenEtag(header)
		return
	}
	delete(header, "Last-Modified")
	delete(header, "Etag")
}

// replacer returns the replacer for an exchange, or nil if there is nothing to replace.
func (s *subFilter) replacer(w *writer) *replace.Writer {
	from, with := s.matcher, make([][]byte, 0, len(s.to))
	var strings []string
	for i := range s.to {
		if from == nil {
			one := s.from[i].eval(w.x)
			if one == "" {
				continue
			}
			strings = append(strings, one)
		}
		with = append(with, []byte(s.to[i].eval(w.x)))
	}
	if len(with) == 0 {
		return nil
	}
	if from == nil {
		from = replace.NewMatcher(strings)
	}
	return replace.NewWriter(from, with, s.once, subOutput{w})
}

// subOutput is where replaced text goes.
type subOutput struct{ w *writer }

func (t subOutput) Write(p []byte) (int, error) { return t.w.encode(p) }

// substitutes reports whether strings are replaced in responses of some type.
func (x *exchange) substitutes() bool { return x.loc.filters != nil && x.loc.filters.sub != nil }

// withoutRange returns a request for the whole response if it has too many ranges, or if strings
// are replaced in responses of a type: a range would refer to the original.
func (x *exchange) withoutRange(r *http.Request, contentType string) *http.Request {
	ranges, most := r.Header["Range"], x.loc.settings.MaxRanges
	tooMany := len(ranges) > 0 && most != 0 && strings.Count(ranges[0], ",") >= most
	if !tooMany && (!x.substitutes() || len(ranges) == 0 || !x.loc.filters.sub.types.contains(contentType)) {
		return r
	}
	r = r.WithContext(r.Context()) // a copy, whose header may change
	r.Header = r.Header.Clone()
	delete(r.Header, "Range")
	return r
}
