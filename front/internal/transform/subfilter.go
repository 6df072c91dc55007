package transform

import (
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/replace"
)

// maxSubstitutions is nginx's maximum.
const maxSubstitutions = 255

// SubFilterModule replaces strings: sub_filter and the directives with that prefix.
func SubFilterModule() core.Module {
	return core.Module{Compile: compileSubFilter}
}

type subFilter struct {
	from, to []core.Text
	matcher  *replace.Matcher // nil if from has variables
	types    mediatype.Set
	settings *conf.SubFilter
}

func compileSubFilter(c *core.Compiler, settings *conf.Settings, _ core.Slot) (e core.Effect) {
	s := settings.SubFilter
	if s == nil || len(s.Substitutions) == 0 {
		return e
	}
	if len(s.Substitutions) > maxSubstitutions {
		c.Failf("sub_filter: %d strings: want at most %d", len(s.Substitutions), maxSubstitutions)
	}
	out := &subFilter{types: mediatype.NewSet(s.Types), settings: s}
	fixed, varies := make([]string, len(s.Substitutions)), false
	for i, p := range s.Substitutions {
		from, to := c.Text("sub_filter", p.From), c.Text("sub_filter", p.To)
		if from.Empty() {
			c.Failf("sub_filter: empty search string")
		}
		out.from, out.to = append(out.from, from), append(out.to, to)
		varies = varies || !from.Constant()
		fixed[i] = string(p.From)
	}
	if !varies {
		out.matcher = replace.NewMatcher(fixed)
	}
	// as in nginx a body is searched before it is added
	return core.Effect{Rules: out, Bodies: []core.BodyFilter{out}, Edits: &out.types, EditsAdded: true}
}

// MayApply implements BodyFilter. nginx also searches encoded bodies, where matches are accidental.
func (s *subFilter) MayApply(w *core.Writer) (need int64, ok bool) {
	length, known := message.DeclaredLength(w.Header())
	if known && length <= 0 || w.Header().Get("Content-Encoding") != "" {
		return 0, false
	}
	if !message.BodyAllowed(w.Status) {
		return 0, true
	}
	return core.NeededForType(w.Header()), true
}

// Start implements BodyFilter.
func (s *subFilter) Start(w *core.Writer, contentType string, _ int64) {
	header := w.Header()
	if !s.types.Contains(contentType) {
		return
	}
	replacer := s.replacer(w)
	if replacer == nil {
		return
	}
	w.Stages[core.SubStage] = &replaceStage{Writer: replacer}
	message.ReplaceBody(header)
	if !s.settings.KeepModified {
		delete(header, "Last-Modified")
		delete(header, "Etag")
	}
}

// replacer returns the replacer for an exchange, or nil if there is nothing to replace.
func (s *subFilter) replacer(w *core.Writer) *replace.Writer {
	from, with := s.matcher, make([][]byte, 0, len(s.to))
	var strings []string
	for i := range s.to {
		if from == nil {
			one := s.from[i].Eval(w.X)
			if one == "" {
				continue
			}
			strings = append(strings, one)
		}
		with = append(with, []byte(s.to[i].Eval(w.X)))
	}
	if len(with) == 0 {
		return nil
	}
	if from == nil {
		from = replace.NewMatcher(strings)
	}
	return replace.NewWriter(from, with, !s.settings.Every, subOutput{w})
}

type replaceStage struct {
	core.PlainStage // the beginning of a match waits for more
	*replace.Writer
}

type subOutput struct{ w *core.Writer }

func (t subOutput) Write(p []byte) (int, error) { return t.w.Pass(core.SubStage+1, p) }
