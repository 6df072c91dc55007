package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
)

const (
	// maxMirrors bounds the copies of requests in progress. Each has a goroutine.
	maxMirrors = 512
	// maxMirrorTime bounds the time of a copy.
	maxMirrorTime = 5 * time.Minute
)

// MirrorModule sends copies of requests: mirror and mirror_request_body.
func MirrorModule() core.Module {
	return core.Module{Compile: compileMirror, NewState: func() any { return new(atomic.Int64) }}
}

type mirror struct {
	from *conf.Mirror
	at   core.Slot // holds the number of copies in progress; of an exchange, that its copies were sent
}

func compileMirror(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	from := s.Mirror
	if from == nil {
		return e
	}
	for _, uri := range from.URIs {
		if !strings.HasPrefix(uri, "/") {
			c.Failf("mirror: invalid path %q: want a leading slash", uri)
		}
	}
	m := &mirror{from, at}
	return core.Effect{Rules: m, Step: core.Step{Phase: core.ContentPhase, Name: "mirror", Run: m.run}}
}

// run starts the copies of a request. It receives the body first, unless the copies have none.
func (m *mirror) run(x *core.Exchange) core.Outcome {
	if x.Parent != nil || x.ModuleState(m.at) != nil {
		return core.Proceed
	}
	x.SetModuleState(m.at, true)
	if e := x.Plan.Options.Explain; e != nil { // no copy is sent
		for _, uri := range m.from.URIs {
			e.Add(x, "mirror", "", "sends a copy to %s", uri)
		}
		return core.Proceed
	}
	if !m.from.NoBody && hasBody(x) && x.Received == nil {
		if out := receiveWhole(x); out != core.Proceed {
			return out
		}
	}
	for _, uri := range m.from.URIs {
		m.start(x, uri)
	}
	return core.Proceed
}

// start starts a copy of a request, which goes on after the request has ended. It shares nothing
// that the request's handler or its end may change.
func (m *mirror) start(x *core.Exchange, uri string) {
	s := x.Plan.State
	running := s.Modules[m.at].(*atomic.Int64)
	if running.Add(1) > maxMirrors {
		running.Add(-1)
		x.Errorf(errorlog.LevelError, "request is not mirrored to %q: %d others are in progress", uri, maxMirrors)
		return
	}
	x.Plan.Users.Add(1) // x uses the plan: it is not released yet
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Request.Context()), maxMirrorTime)
	unwatch := context.AfterFunc(s.Closing, cancel)
	r := x.ClientRequest().WithContext(ctx)
	url := *r.URL
	r.URL, r.Header, r.Trailer = &url, r.Header.Clone(), nil
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	delete(r.Header, "Content-Length")
	delete(r.Header, "Upgrade") // nothing would use the connection
	parent := &core.Exchange{
		Plan: x.Plan, Request: r, HostHeader: x.HostHeader, Method: x.Method, Host: x.Host, Loc: x.Loc,
		ID: core.RequestID(x), Vars: slices.Clone(x.Vars), ConnUse: x.ConnUse, Args: x.Args, States: x.CopyStates(),
	}
	parent.Regexes().Used = x.Regexes().Used
	parent.StartTime, parent.Address = x.StartTime, *x.ClientAddress()
	sub := parent.Subrequest(uri)
	sub.Method, sub.Args, sub.Captures = x.Method, x.Args, x.Captures
	sub.Request = r
	if !m.from.NoBody && x.Received != nil && !x.Received.IsStreamed() {
		sub.Received = x.Received.Share()
		unread, end := io.Pipe()
		_ = end.CloseWithError(fetch.ErrBodyConsumed) // it never fails
		r.Body, r.ContentLength = unread, sub.Received.Length()
	}
	go runMirror(sub, func() {
		unwatch()
		cancel()
		running.Add(-1)
	})
}

// runMirror runs the phases of a copy, and then calls release.
func runMirror(x *core.Exchange, release func()) {
	defer func() {
		if why := recover(); why != nil && why != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
			text := errorlog.Printable(fmt.Appendf(nil, "panic in a mirrored request: %v", why))
			x.LogError(errorlog.LevelError, append(append(text, '\n'), debug.Stack()...))
		}
		x.EndSubrequest()
		x.Release()
		release()
		x.Plan.Leave()
	}()
	x.RunSubrequest()
}
