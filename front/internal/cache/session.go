package cache

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/byterange"
)

// A session serves one request.
//
//	respond -> head | find | fetch (Skip) | pass (method, long key)
//	find    -> hit (fresh) | share
//	share   -> lead (first request) | wait (then find, fetch or pass) | hit (stale, while updated)
//	lead    -> find (another has just stored it) | updateBehind | fetch
//	fetch   -> stored | not stored | revalidated (304) | stale response (the origin failed)
//
// The response to pass is never stored. hit falls back to miss if the stored response has just gone.
type session struct {
	c     *Cache
	q     Query
	rules *Rules
	id    keyID

	state   State   // of the response, if it comes from the origin
	old     *stored // the stale stored response, or nil
	entry   *entry  // of old
	flight  *flight // the flight that this request leads
	until   time.Time
	behind  bool // a background update: the client's request does not wait, and may have ended
	crowded bool // too much is being sent from memory
}

// Find returns the response for a request: a stored one, or the origin's. It may wait for the
// request of another client. An error is the origin's, or that of the request's context, and does
// not affect other requests: the Response has only its State then.
func (c *Cache) Find(q Query) (*Response, error) {
	s := session{c: c, q: q, rules: q.Rules}
	defer s.land()
	a, err := s.respond()
	if err != nil {
		return &Response{State: s.state}, err
	}
	return a, nil
}

func (s *session) respond() (*Response, error) {
	switch {
	case !keeps(s.q.Method):
		return s.passMethod()
	case len(s.q.Key) > maxKey:
		return s.pass()
	}
	s.id = identify(s.q.Key)
	if s.q.Method == http.MethodHead && s.rules.policy.KeepHead {
		return s.head()
	}
	if s.q.Skip {
		s.state = StateBypass
		if s.q.PassesRange {
			return s.pass()
		}
		return s.fetch()
	}
	return s.find()
}

// head serves a HEAD request that is not converted to GET: from what is stored for GET, or from a
// response under its own key. In nginx both have one key. Unless it contains $request_method, a GET
// may receive a response without a body.
func (s *session) head() (*Response, error) {
	now := time.Now()
	if s.q.Skip {
		s.state = StateBypass
	} else if s.entry, s.old = s.lookup(now); s.old != nil && s.old.life.isFresh(now) {
		return s.use(StateHit, now)
	}
	s.entry, s.old = nil, nil
	s.q.Key += headSuffix
	s.id = identify(s.q.Key)
	if s.q.Skip {
		return s.fetch()
	}
	return s.find()
}

// find serves the stored response, waits for one that is being fetched, or fetches it.
func (s *session) find() (*Response, error) {
	for {
		now := time.Now()
		s.entry, s.old = s.lookup(now)
		if s.old != nil && s.old.life.isFresh(now) {
			return s.use(StateHit, now)
		}
		s.state = StateExpired
		if s.old == nil {
			s.state = StateMiss
			if least := s.rules.policy.MinUses; least > 1 && s.c.uses.count(s.id) < least {
				return s.pass()
			}
		}
		if s.q.PassesRange {
			return s.pass()
		}
		if a, err := s.share(now); a != nil || err != nil {
			return a, err
		}
	}
}

// lookup finds the stored response for the request. It ignores a response that diverts: another
// location, or an earlier version of this one, stored it.
func (s *session) lookup(now time.Time) (*entry, *stored) {
	e, found := s.c.lookup(s.id, s.q.Key, s.q.Origin, now)
	if found != nil && s.rules.replaces(found.header) {
		return nil, nil
	}
	return e, found
}

// keeps reports whether the response may be stored at all. A response that depends on a request
// body must not be stored, because no key contains the body. Otherwise a client could poison the
// cache for others.
func (s *session) keeps() bool {
	return !s.q.NoStore && !s.q.HasBody && s.c.fills.Load() < maxFlights && s.c.closing.Err() == nil
}

// share joins the flight of a missing or stale response. If it returns no response, the caller
// looks again. A request whose response is not stored may wait for others, and others do not wait
// for it.
func (s *session) share(now time.Time) (*Response, error) {
	policy := &s.rules.policy
	updating := s.old != nil && s.rules.mayUpdate(&s.old.life, now)
	if !updating && (!policy.Lock || s.c.uncacheable.holds(s.id, now)) {
		return s.fetch()
	}
	age := policy.LockAge
	if updating { // no request waits
		age = max(age, updatedFor)
	}
	f, leads := s.c.join(s.id, s.c.flightKeyOf(s.id, s.q.Key, s.q.Origin), now, age, s.keeps())
	if f == nil {
		return s.fetch()
	}
	if leads {
		return s.lead(f, updating && policy.Background && s.q.Rejects == nil, now)
	}
	if updating {
		return s.use(StateUpdating, now)
	}
	return s.wait(f)
}

// lead starts a flight, unless one has ended since the request looked.
func (s *session) lead(f *flight, behind bool, now time.Time) (*Response, error) {
	s.flight = f
	_, found := s.lookup(now)
	if found != nil && (s.old == nil || found.life.received.After(s.old.life.received)) {
		s.land()
		return nil, nil
	}
	if behind {
		return s.updateBehind(now)
	}
	return s.fetch()
}

// use serves the stored response, or fetches it if it has just gone.
func (s *session) use(state State, now time.Time) (*Response, error) {
	if a := s.hit(state, now); a != nil {
		return a, nil
	}
	return s.miss()
}

// miss fetches a response that has gone or cannot be read. If slow clients hold too much memory,
// the request bypasses the cache.
func (s *session) miss() (*Response, error) {
	s.old, s.state = nil, StateMiss
	if s.crowded {
		return s.pass()
	}
	return s.fetch()
}

// hit serves the stored response. It returns nil if that cannot be read; unless the reason is
// temporary, the entry is dropped.
func (s *session) hit(state State, now time.Time) *Response {
	a := &Response{Status: s.old.status, Header: s.old.header, State: state, stored: s.old, at: now}
	if fromMemory := s.old.lease != nil && s.acquire(a); !fromMemory {
		f := s.c.index.fileOf(s.entry)
		if f == nil {
			s.crowded = s.old.lease != nil
			return nil
		}
		var err error
		if a.file, err = s.c.disk.body(f, s.old.length); err != nil {
			if !outOfDescriptors(err) {
				s.c.index.drop(s.entry)
			}
			return nil
		}
		if s.old.body != nil {
			a.stored = s.old.withoutBody()
		}
	}
	return a
}

// acquire keeps the stored body in memory while it is sent. It returns false if too much is being
// sent from memory: then the body is read from its file.
func (s *session) acquire(a *Response) bool {
	if s.q.Method == http.MethodHead {
		return true
	}
	leases := &s.c.index.leases
	if !leases.acquire(s.old.lease) {
		return false
	}
	a.leases = leases
	if leases.loose.Load() > 0 {
		s.c.index.evict()
	}
	return true
}

// updateBehind serves the stale response and updates it in the background. The origin may panic while
// it makes the request.
func (s *session) updateBehind(now time.Time) (*Response, error) {
	request := s.originRequest()
	request.Behind = true
	fetch := s.q.Origin.Request(request)
	a := s.hit(StateStale, now)
	if a == nil {
		return s.miss() // keeps the flight: a second lookup would leave it without a leader
	}
	if s.c.behind.Add(1) > maxBackground {
		s.c.behind.Add(-1)
		return a, nil
	}
	later := *s
	s.flight, later.behind = nil, true // later ends the flight
	s.c.routines.Go(func() { later.update(request, fetch) })
	return a, nil
}

// update continues a session whose request does not wait.
func (s *session) update(request OriginRequest, fetch Fetch) {
	defer s.c.behind.Add(-1)
	defer s.land()
	defer func() { s.c.panicked(recover()) }() // no server logs a panic of a background update
	a, err := s.send(request, fetch)
	if err != nil {
		return
	}
	if a.arriving != nil {
		a.arriving.f.leave(updatedFor)
	}
	a.Close()
}

// panicked logs a panic of an origin with the stack. As in net/http, http.ErrAbortHandler is not
// logged.
func (c *Cache) panicked(p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
		c.errors.Printf("cache %s: the origin panicked: %v\n%s", c.name, p, debug.Stack())
	}
}

// land ends the request's flight, unless it has ended or another goroutine has taken it over.
func (s *session) land() { s.c.end(s.flight, true) }

// originRequest returns the request for an origin whose response may be stored.
func (s *session) originRequest() OriginRequest {
	request := OriginRequest{Method: s.q.Method, Whole: true}
	if request.Method == http.MethodHead && !s.rules.policy.KeepHead {
		request.Method = http.MethodGet
	}
	if s.old != nil && s.rules.policy.Revalidate && s.old.status == http.StatusOK {
		request.Etag, request.LastModified = s.old.header.Get("Etag"), s.old.header.Get("Last-Modified")
	}
	return request
}

// fetch requests a response that is stored if allowed.
func (s *session) fetch() (*Response, error) {
	if s.old == nil && !s.keeps() {
		return s.pass()
	}
	request := s.originRequest()
	return s.send(request, s.q.Origin.Request(request))
}

// send sends a request by fetch, and handles the response. The exchange continues if the client has
// gone.
func (s *session) send(request OriginRequest, fetch Fetch) (*Response, error) {
	changes := s.c.changes.of(s.id)
	before, sentAt := changes.Load(), time.Now()
	still := func() bool { return changes.Load() == before } // nothing was invalidated
	resp, err := s.c.detached(s.q.Context, fetch)
	now := time.Now()
	if err != nil {
		if s.old != nil && s.rules.mayFail(&s.old.life, err, now) {
			if a := s.hit(StateStale, now); a != nil {
				return a, nil
			}
		}
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && (request.Etag != "" || request.LastModified != ""):
		return s.revalidated(resp, sentAt, now, still)
	case s.old != nil && s.rules.mayReplace(&s.old.life, resp.StatusCode, now):
		if a := s.hit(StateStale, now); a != nil {
			_ = resp.Body.Close()
			return a, nil
		}
	}
	life, chosen, why := s.rules.judge(&s.q, resp, sentAt, now)
	if why == "" && s.keeps() {
		if a := s.store(resp, life, chosen, still); a != nil {
			a.State, a.at = s.state, now
			return a, nil
		}
		why = "size"
	}
	if why != "" && resp.StatusCode < 500 { // requests for a failing origin go one at a time
		s.c.uncacheable.mark(s.id, now.Add(uncacheableFor))
	}
	if s.entry != nil && s.supersedes(resp.StatusCode, why) {
		s.c.index.drop(s.entry)
	}
	s.c.end(s.flight, false)
	return s.notKept(resp), nil
}

// supersedes reports whether a response that is not stored replaces the stale one at the origin.
// Otherwise the stale one would be served as long as updates run, and they never succeed.
func (s *session) supersedes(status int, why string) bool {
	found := status < http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusGone
	return found && !s.q.NoStore && slices.Contains([]string{"cache-control", notFresh, diverted, streamed}, why)
}

// detached sends a request on behalf of the cache. Neither the end nor the deadline of the client's
// request cancels it; closing the body does.
func (c *Cache) detached(of context.Context, fetch Fetch) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(of))
	stop := context.AfterFunc(c.closing, cancel)
	body := &cancelingBody{end: func() {
		stop()
		cancel()
	}}
	defer func() {
		if body.ReadCloser == nil { // an error, or a panic
			body.end()
		}
	}()
	resp, err := fetch(ctx)
	if err != nil {
		return nil, err
	}
	body.ReadCloser = resp.Body
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// the connection itself belongs to this client alone
		context.AfterFunc(of, body.end)
		return resp, nil
	}
	resp.Body = body
	return resp, nil
}

// notKept returns a response that turned out not to be storable. It ends with the client's request.
func (s *session) notKept(resp *http.Response) *Response {
	a := s.passed(resp)
	if s.behind { // no client receives it, and the client's request may have ended
		return a
	}
	body, ok := resp.Body.(*cancelingBody)
	if !ok { // the connection has switched protocols
		return a
	}
	end, stop := body.end, context.AfterFunc(s.q.Context, body.end)
	body.end = func() {
		stop()
		end()
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength >= 0 && byterange.MaySelect(s.q.Header) {
		// the origin did not see the conditions
		a.Passed, a.arriving = nil, &fillReader{ctx: s.q.Context, f: unstored(resp), pieces: &s.c.pieces}
	}
	return a
}

// store starts to store a response. It returns nil if that is impossible.
func (s *session) store(resp *http.Response, life lifetime, chosen []choice, still func() bool) *Response {
	header, ok := keptHeader(resp.StatusCode, resp.Header)
	if !ok {
		return nil
	}
	if header["Date"] == nil { // RFC 9110, 6.6.1
		header["Date"] = []string{life.received.UTC().Format(http.TimeFormat)}
	}
	head := &stored{key: s.q.Key, choices: chosen, status: resp.StatusCode, header: header, life: life}
	if length := resp.Header["Content-Length"]; head.headOnly() && length != nil {
		// the length of a body that a response to HEAD does not have
		header["Content-Length"] = length
	}
	f := s.c.newFill(resp, head)
	if f == nil {
		return nil
	}
	f.id, f.flight, f.still = s.id, s.flight, still
	f.start()
	s.flight = nil // the fill ends it
	if !head.headOnly() && resp.ContentLength >= 0 && resp.StatusCode != http.StatusNoContent {
		header = header.Clone()
		header["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	return &Response{Status: resp.StatusCode, Header: header, stored: head,
		arriving: &fillReader{ctx: s.q.Context, f: f, pieces: &s.c.pieces}}
}

// pass forwards the request to the origin, and does not store the response.
func (s *session) pass() (*Response, error) {
	resp, err := s.q.Origin.Request(OriginRequest{Method: s.q.Method})(s.q.Context)
	if err != nil {
		return nil, err
	}
	return s.passed(resp), nil
}

func (s *session) passed(resp *http.Response) *Response {
	a := Pass(resp)
	a.State = s.state
	return a
}

// passMethod forwards a request whose response is never stored. With CachePolicy.Invalidate, a
// successful request that may have changed something removes what is stored under its key.
func (s *session) passMethod() (*Response, error) {
	a, err := s.pass()
	switch s.q.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "REPORT", "SEARCH":
	default:
		if err == nil && s.rules.policy.Invalidate && a.Status >= http.StatusOK && a.Status < http.StatusBadRequest {
			s.c.Purge(s.q.Key)
		}
	}
	return a, err
}
