package front

import (
	"errors"
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/replace"
)

// maxSubstitutions is nginx's maximum.
const maxSubstitutions = 255

// subFilterModule replaces strings: sub_filter and the directives with that prefix.
func subFilterModule() module {
	return module{compile: func(c *compiler, s *conf.Settings, _ slot) (effect, error) {
		f, err := c.subFilter(s.SubFilter)
		if f == nil || err != nil {
			return effect{}, err
		}
		return effect{rules: f, bodies: []bodyFilter{f}}, nil
	}}
}

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

// mayApply implements bodyFilter. nginx also searches encoded bodies, where matches are accidental.
func (s *subFilter) mayApply(w *writer) (need int64, ok bool) {
	length, known := declaredLength(w.Header())
	if known && length <= 0 || w.Header().Get("Content-Encoding") != "" {
		return 0, false
	}
	if !bodyAllowed(w.status) {
		return 0, true
	}
	return neededForType(w.Header()), true
}

// start implements bodyFilter.
func (s *subFilter) start(w *writer, contentType string, _ int64) {
	header := w.Header()
	if !s.types.contains(contentType) {
		return
	}
	replacer := s.replacer(w)
	if replacer == nil {
		return
	}
	w.stages[subStage] = &replaceStage{Writer: replacer}
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

// replaceStage is the stage of a subFilter.
type replaceStage struct {
	plainStage // the beginning of a match waits for more
	*replace.Writer
}

// subOutput is where replaced text goes.
type subOutput struct{ w *writer }

func (t subOutput) Write(p []byte) (int, error) { return t.w.pass(subStage+1, p) }

// edits implements editor.
func (s *subFilter) edits(contentType string) bool { return s.types.contains(contentType) }

// changesAdded implements editor: as in nginx the body is searched before it is added.
func (s *subFilter) changesAdded() bool { return true }
