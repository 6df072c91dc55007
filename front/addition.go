package front

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// An added body is that of a subrequest. As in nginx it is not searched for the strings of the
// response's own sub_filter, and it is compressed with the response:
//
//	content -> gunzip -> substitution -> before + body + after -> compression

// additionModule adds bodies: add_before_body, add_after_body and addition_types.
func additionModule() module {
	return module{compile: func(_ *compiler, s *conf.Settings, _ slot) (effect, error) {
		a, err := newAddition(s)
		if a == nil || err != nil {
			return effect{}, err
		}
		return effect{rules: a, bodies: []bodyFilter{a}}, nil
	}}
}

// addition is what a location adds to bodies.
type addition struct {
	before, after string // paths of subrequests, or ""
	types         bodyTypes
}

// newAddition compiles AddBefore and AddAfter; nil adds nothing.
func newAddition(s *conf.Settings) (*addition, error) {
	if s.AddBefore == "" && s.AddAfter == "" {
		return nil, nil
	}
	for _, path := range []string{s.AddBefore, s.AddAfter} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("added body: invalid path %q: want a leading slash", path)
		}
	}
	return &addition{s.AddBefore, s.AddAfter, newBodyTypes(s.AddTypes)}, nil
}

// mayApply implements bodyFilter. nginx also adds bodies to encoded ones, which no client can
// decode then.
func (a *addition) mayApply(w *writer) (need int64, ok bool) {
	if w.status != http.StatusOK || w.Header().Get("Content-Encoding") != "" {
		return 0, false
	}
	return neededForType(w.Header()), true
}

// start implements bodyFilter.
func (a *addition) start(w *writer, contentType string, _ int64) {
	if !a.types.contains(contentType) {
		return
	}
	header := w.Header()
	delete(header, "Content-Length")
	delete(header, "Accept-Ranges")
	weakenEtag(header)
	if w.x.r.Method != http.MethodHead {
		w.stages[additionStage] = &addedBodies{w: w, from: a}
	}
}

// edits implements editor.
func (a *addition) edits(contentType string) bool { return a.types.contains(contentType) }

// changesAdded implements editor.
func (a *addition) changesAdded() bool { return false }

// addedBodies is the stage that adds bodies to a response.
type addedBodies struct {
	plainStage
	w        *writer
	from     *addition
	hasBegun bool
}

// begin adds the first body, once, before the first byte of the response's own.
func (a *addedBodies) begin() {
	if !a.hasBegun {
		a.hasBegun = true
		a.w.insert(a.from.before)
	}
}

// Write passes on a part of the response's own body.
func (a *addedBodies) Write(p []byte) (int, error) {
	a.begin()
	return a.w.pass(additionStage+1, p)
}

// Close adds the last body.
func (a *addedBodies) Close() error {
	a.begin()
	a.w.insert(a.from.after)
	return nil
}

// insert makes a subrequest for a path, and writes the body of its response. It panics if the
// client has gone, or if that body is incomplete: the response is, too.
func (w *writer) insert(path string) {
	if path == "" {
		return
	}
	sub := w.x.subrequest(path)
	sub.addedTo = w
	if sub.r.Header["Accept-Encoding"] != nil {
		sub.r.Header = sub.r.Header.Clone()
		delete(sub.r.Header, "Accept-Encoding")
	}
	sub.w.ResponseWriter = &addedWriter{header: make(http.Header), to: w, sub: sub}
	defer sub.endSubrequest()
	sub.runSubrequest()
	w.x.regexTimedOut = w.x.regexTimedOut || sub.regexTimedOut
}

// addedWriter is the http.ResponseWriter of a subrequest whose body is added to a response. As in
// nginx the body of an error is added, too.
type addedWriter struct {
	header http.Header
	to     *writer
	sub    *exchange

	isDropped bool // the body is encoded
}

// Header implements http.ResponseWriter.
func (u *addedWriter) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *addedWriter) WriteHeader(int) {
	if coding := u.header.Get("Content-Encoding"); coding != "" {
		u.isDropped = true
		u.sub.errorf(levelError, "a response with the Content-Encoding %q cannot be added to another", coding)
	}
}

// Write implements http.ResponseWriter.
func (u *addedWriter) Write(p []byte) (int, error) {
	if u.isDropped {
		return len(p), nil
	}
	return u.to.pass(additionStage+1, p)
}

// FlushError implements what http.ResponseController needs.
func (u *addedWriter) FlushError() error { return u.to.FlushError() }
