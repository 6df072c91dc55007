package front

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/pcre"
)

const (
	// maxMirrors bounds the copies of requests in progress. Each has a goroutine.
	maxMirrors = 512
	// maxMirrorTime bounds the time of a copy.
	maxMirrorTime = 5 * time.Minute
)

// mirrorModule sends copies of requests: mirror and mirror_request_body.
func mirrorModule() module {
	return module{
		compile:  func(_ *compiler, s *conf.Settings, at slot) (effect, error) { return mirrorEffect(s.Mirror, at) },
		newState: func() any { return new(atomic.Int64) },
	}
}

// mirror is a Mirror, compiled.
type mirror struct {
	from *conf.Mirror
	at   slot // of the number of copies in progress, and of whether copies of the request were sent
}

// mirrorEffect compiles a Mirror.
func mirrorEffect(from *conf.Mirror, at slot) (effect, error) {
	if from == nil {
		return effect{}, nil
	}
	for _, uri := range from.URIs {
		if !strings.HasPrefix(uri, "/") {
			return effect{}, fmt.Errorf("mirror: invalid path %q: want a leading slash", uri)
		}
	}
	m := &mirror{from, at}
	return effect{rules: m, step: step{contentPhase, "mirror", m.run}}, nil
}

// run starts the copies of a request. It receives the body first, unless the copies have none.
func (m *mirror) run(x *exchange) outcome {
	if x.parent != nil || x.moduleState(m.at) != nil {
		return proceed
	}
	x.setModuleState(m.at, true)
	if m.explain(x) {
		return proceed
	}
	if !m.from.NoBody && hasBody(x) && !x.hasReceived() {
		if x.proxy == nil {
			x.proxy = x.plan.state.acquireProxyState()
		}
		if out := x.receiveWhole(); out != proceed {
			return out
		}
	}
	for _, uri := range m.from.URIs {
		m.start(x, uri)
	}
	return proceed
}

// explain adds findings about the copies of a request, and reports whether the request is only
// explained: none is sent then.
func (m *mirror) explain(x *exchange) bool {
	e := x.plan.options.explain
	if e == nil {
		return false
	}
	for _, uri := range m.from.URIs {
		e.add(x, "mirror", "", "sends a copy to %s", uri)
	}
	return true
}

// start starts a copy of a request, which goes on after the request has ended. It shares nothing
// with the request that the latter's handler or its end may change.
func (m *mirror) start(x *exchange, uri string) {
	s := x.plan.state
	running := s.modules[m.at].(*atomic.Int64)
	if running.Add(1) > maxMirrors {
		running.Add(-1)
		x.errorf(levelError, "request is not mirrored to %q: %d others are in progress", uri, maxMirrors)
		return
	}
	x.plan.users.Add(1) // x uses the plan: it is not released yet
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), maxMirrorTime)
	unwatch := context.AfterFunc(s.closing, cancel)
	r := x.clientRequest().WithContext(ctx)
	url := *r.URL
	r.URL, r.Header, r.Trailer = &url, r.Header.Clone(), nil
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	delete(r.Header, "Content-Length")
	delete(r.Header, "Upgrade") // nothing would use the connection
	parent := &exchange{
		plan: x.plan, r: r, hostHeader: x.hostHeader, method: x.method, host: x.host, loc: x.loc, id: requestID(x),
		regexes: pcre.Budget{Used: x.regexes.Used}, vars: slices.Clone(x.vars), connUse: x.connUse, args: x.args, states: x.copyStates(),
	}
	parent.startTime, parent.ownAddress = x.startTime, *x.clientAddress()
	parent.address = &parent.ownAddress
	parent.requestLimit, parent.connLimit = x.requestLimit, x.connLimit
	sub := parent.subrequest(uri)
	sub.method, sub.args, sub.captures = x.method, x.args, x.captures
	sub.r = r
	if !m.from.NoBody && x.hasReceived() && !stateOf(x).clientBody.IsStreamed() {
		sub.proxy = s.acquireProxyState()
		stateOf(sub).clientBody = stateOf(x).clientBody.Share()
		r.Body, r.ContentLength = &errorBody{}, stateOf(sub).clientBody.Length()
	}
	go sub.runMirror(func() {
		unwatch()
		cancel()
		running.Add(-1)
	})
}

// errorBody is the body of a request whose body is in memory or a file: nothing reads it.
type errorBody struct{}

// Read implements io.Reader.
func (*errorBody) Read([]byte) (int, error) { return 0, fetch.ErrBodyConsumed }

// Close implements io.Closer.
func (*errorBody) Close() error { return nil }

// runMirror runs the phases of a copy, and then calls release.
func (x *exchange) runMirror(release func()) {
	defer func() {
		if why := recover(); why != nil && why != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
			text := printable(fmt.Appendf(nil, "panic in a mirrored request: %v", why))
			x.logError(levelError, append(append(text, '\n'), debug.Stack()...))
		}
		x.closeProxyState()
		x.w.release()
		x.logSubrequest()
		x.releaseLimits()
		x.recycleProxyState()
		release()
		x.plan.leave()
	}()
	x.runSubrequest()
}
