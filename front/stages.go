package front

import (
	"io"
	"net/http"
	"slices"
)

// A body passes these stages, in this order.
const (
	gunzipStage = iota
	holdStage   // until the filters of the type are known
	subStage
	additionStage
	compressStage
	stageCount
)

// stage changes a response's body, and passes it to the stages that follow.
type stage interface {
	io.Writer
	Flush() error // passes on what can be
	Close() error // passes on the rest, at the end of the body
	release()     // also after a panic
}

// plainStage has the methods of a stage that neither flushes nor releases anything.
type plainStage struct{}

func (plainStage) Flush() error { return nil }
func (plainStage) release()     {}

// pass passes a part of the body to the stages from at on, and to the client.
func (w *writer) pass(at int, p []byte) (int, error) {
	for _, s := range w.stages[at:] {
		if s != nil {
			return s.Write(p)
		}
	}
	return w.sendBody(p)
}

// changesBody reports whether the body is changed, or may be.
func (w *writer) changesBody() bool { return w.stages != [stageCount]stage{} }

// bodyFilter is what a location does to bodies of some types.
type bodyFilter interface {
	// mayApply reports whether the filter may apply to a response, by its head, and how much of the
	// body start needs.
	mayApply(w *writer) (need int64, ok bool)
	// start changes the head of a response of a type, and adds a stage. The length is unknownLength
	// unless the whole body is held back.
	start(w *writer, contentType string, length int64)
}

// unknownLength is that of a body whose end is not known.
const unknownLength = -1

// setBodyFilters sets byType, in the order in which the filters change the head.
func (f *filters) setBodyFilters(ofModules []bodyFilter) {
	f.byType = slices.Clone(ofModules)
	for _, b := range ofModules {
		if e, ok := b.(editor); ok {
			f.editors = append(f.editors, e)
		}
	}
	if f.noChunks {
		f.byType = append(f.byType, noChunks{})
	}
}

// changeBodies reports whether the filters may change bodies or their framing.
func (f *filters) changeBodies() bool { return f.starts != nil || f.byType != nil }

// startStages starts the stages of a response whose header is complete. It returns false if they
// depend on the beginning of the body: the head is then held back.
func (f *filters) startStages(w *writer) bool {
	for _, start := range f.starts {
		start(w)
	}
	return startByType(w, f.byType)
}

// startAddedStages is startStages for a body that is added to another response. As in nginx only
// the text is changed.
func (f *filters) startAddedStages(w *writer) bool {
	var all []bodyFilter
	for _, e := range f.editors {
		if e.changesAdded() {
			all = append(all, e)
		}
	}
	return startByType(w, all)
}

// editor is a bodyFilter that changes text.
type editor interface {
	bodyFilter
	// edits reports whether bodies of a type are changed.
	edits(contentType string) bool
	// changesAdded reports whether it also changes bodies that are added to another response.
	changesAdded() bool
}

// editsBody reports whether responses of some type are edited, so that their length changes.
func (x *exchange) editsBody() bool {
	return x.loc.filters.editors != nil
}

// edits reports whether responses of a type are edited.
func (f *filters) edits(contentType string) bool {
	return slices.ContainsFunc(f.editors, func(e editor) bool { return e.edits(contentType) })
}

// withoutRange returns a request for the whole response if responses of a type are edited: a range
// would refer to the original.
func (x *exchange) withoutRange(r *http.Request, contentType string) *http.Request {
	if !x.editsBody() || len(r.Header["Range"]) == 0 || !x.loc.filters.edits(contentType) {
		return r
	}
	r = r.WithContext(r.Context()) // a copy, whose header may change
	r.Header = r.Header.Clone()
	delete(r.Header, "Range")
	return r
}

// bodyFilters are those of a list that may apply to a response.
type bodyFilters struct {
	all  []bodyFilter
	bits uint // by index
}

// startByType starts filters at once, or holds the head back and returns false.
func startByType(w *writer, all []bodyFilter) bool {
	chosen, most := bodyFilters{all: all}, int64(0)
	for i, f := range all {
		if need, ok := f.mayApply(w); ok {
			chosen.bits |= 1 << i
			most = max(most, need)
		}
	}
	if most > 0 {
		w.stages[holdStage] = &heldResponse{w: w, chosen: chosen, needed: int(most)}
		return false
	}
	chosen.start(w, firstValue(w.Header()["Content-Type"]), unknownLength)
	return true
}

// start starts the filters.
func (c *bodyFilters) start(w *writer, contentType string, length int64) {
	for i, f := range c.all {
		if c.bits&(1<<i) != 0 {
			f.start(w, contentType, length)
		}
	}
}
