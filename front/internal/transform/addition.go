package transform

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/message"
)

// An added body is that of a subrequest. As in nginx it is not searched for the strings of the
// response's own sub_filter, and it is compressed with the response:
//
//	content -> gunzip -> substitution -> before + body + after -> compression

// AdditionModule adds bodies: add_before_body, add_after_body and addition_types.
func AdditionModule() core.Module {
	return core.Module{Compile: compileAddition}
}

// addition adds bodies to those of some types.
type addition struct{ types mediatype.Set }

func compileAddition(c *core.Compiler, s *conf.Settings, _ core.Slot) (e core.Effect) {
	if s.AddBefore == "" && s.AddAfter == "" {
		return e
	}
	for _, path := range []string{s.AddBefore, s.AddAfter} {
		if path != "" && !strings.HasPrefix(path, "/") {
			c.Failf("added body: invalid path %q: want a leading slash", path)
		}
	}
	a := &addition{mediatype.NewSet(s.AddTypes)}
	return core.Effect{Rules: a, Bodies: []core.BodyFilter{a}, Edits: &a.types}
}

// MayApply implements BodyFilter. nginx also adds bodies to encoded ones, which no client can
// decode then.
func (a *addition) MayApply(w *core.Writer) (need int64, ok bool) {
	if w.Status != http.StatusOK || w.Header().Get("Content-Encoding") != "" {
		return 0, false
	}
	return core.NeededForType(w.Header()), true
}

// Start implements BodyFilter.
func (a *addition) Start(w *core.Writer, contentType string, _ int64) {
	if !a.types.Contains(contentType) {
		return
	}
	header := w.Header()
	message.ReplaceBody(header)
	if w.X.Request.Method != http.MethodHead {
		w.Stages[core.AdditionStage] = &addedBodies{w: w}
	}
}

type addedBodies struct {
	core.PlainStage
	w        *core.Writer
	hasBegun bool
}

// begin adds the first body, once, before the first byte of the response's own.
func (a *addedBodies) begin() {
	if !a.hasBegun {
		a.hasBegun = true
		insert(a.w, a.w.X.Loc.Settings.AddBefore)
	}
}

// Write passes on a part of the response's own body.
func (a *addedBodies) Write(p []byte) (int, error) {
	a.begin()
	return a.w.Pass(core.AdditionStage+1, p)
}

// Close adds the last body.
func (a *addedBodies) Close() error {
	a.begin()
	insert(a.w, a.w.X.Loc.Settings.AddAfter)
	return nil
}

// insert makes a subrequest for a path, and writes the body of its response. It panics if the
// client has gone, or if that body is incomplete: the response is, too.
func insert(w *core.Writer, path string) {
	if path == "" {
		return
	}
	sub := w.X.Subrequest(path)
	sub.AddedTo = w
	sub.Request = message.Without(sub.Request, "Accept-Encoding")
	sub.Response.ResponseWriter = &addedWriter{header: make(http.Header), to: w, sub: sub}
	defer sub.EndSubrequest()
	sub.RunSubrequest()
}

// addedWriter is the http.ResponseWriter of a subrequest whose body is added to a response. As in
// nginx the body of an error is added, too.
type addedWriter struct {
	header http.Header
	to     *core.Writer
	sub    *core.Exchange

	isDropped bool // the body is encoded
}

// Header implements http.ResponseWriter.
func (u *addedWriter) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *addedWriter) WriteHeader(int) {
	if coding := u.header.Get("Content-Encoding"); coding != "" {
		u.isDropped = true
		u.sub.Errorf(errorlog.LevelError, "a response with the Content-Encoding %q cannot be added to another", coding)
	}
}

// Write implements http.ResponseWriter.
func (u *addedWriter) Write(p []byte) (int, error) {
	if u.isDropped {
		return len(p), nil
	}
	return u.to.Pass(core.AdditionStage+1, p)
}

// FlushError implements what http.ResponseController needs.
func (u *addedWriter) FlushError() error { return u.to.FlushError() }
