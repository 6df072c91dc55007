package cache

import (
	"context"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// session is a request on its way to an answer.
type session struct {
	c      *Cache
	q      Query
	fields fields // its
	rules  *Rules
	origin Origin
	id     keyID

	state   State   // of its answer, if that is the origin's
	old     *stored // what is there and stale, or nil
	entry   *entry  // its
	flight  *flight // that this request makes
	why     string  // the origin is asked: RFC 9211, 2.2
	until   time.Time
	behind  bool // the client's request does not wait, and may have ended
	crowded bool // what is stored could not be sent from memory: too much is
}

func (s *session) answer() (*Response, error) {
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
		return s.fetch()
	}
	return s.find()
}

// head answers a HEAD that is not made a GET: from what is stored for GET, or by a response of its own, under a key of its own. nginx has
// one key for both: unless that has $request_method a GET gets a response without a body.
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

// find answers from what is there, waits for what is on its way in, or fetches.
func (s *session) find() (*Response, error) {
	for {
		now := time.Now()
		s.entry, s.old = s.lookup(now)
		if s.old != nil && s.old.life.isFresh(now) {
			return s.use(StateHit, now)
		}
		s.state, s.why = StateExpired, "stale"
		if s.old == nil {
			s.state, s.why = StateMiss, s.missed()
			if least := s.rules.policy.MinUses; least > 1 && s.c.uses.count(s.id) < least {
				return s.pass()
			}
		}
		if a, err := s.share(now); a != nil || err != nil {
			return a, err
		}
	}
}

// lookup finds what is stored for the request. A response that diverts is as good as none: another location, or an earlier version of
// this one, has stored it.
func (s *session) lookup(now time.Time) (*entry, *stored) {
	e, found := s.c.lookup(s.id, s.q.Key, &s.fields, now)
	if found != nil && s.rules.diverts(found.status, found.header) {
		return nil, nil
	}
	return e, found
}

// keeps reports whether the response to the request may be stored at all. It may not if it depends on a body that is in no key: a
// client could have others served what only its own request leads to.
func (s *session) keeps() bool {
	return !s.q.NoStore && !s.q.HasBody && s.c.intakes.Load() < maxFlights && s.c.closing.Err() == nil
}

// share joins the flight of what is missing or stale. Without an answer it is to be looked for again. A request whose response is not
// stored may wait for others, and others do not wait for it.
func (s *session) share(now time.Time) (*Response, error) {
	policy := &s.rules.policy
	updating := s.old != nil && s.rules.mayUpdate(&s.old.life, now)
	if !updating && (!policy.Lock || s.c.uncacheable.holds(s.id, now)) {
		return s.fetch()
	}
	age := policy.LockAge
	if updating { // nobody waits
		age = max(age, updatedFor)
	}
	f, leads := s.c.join(s.id, s.c.flightKeyOf(s.id, s.q.Key, &s.fields), now, age, s.keeps())
	if f == nil {
		return s.fetch()
	}
	if leads {
		return s.lead(f, updating && policy.Background && s.q.Refuses == nil, now)
	}
	if updating {
		return s.use(StateUpdating, now)
	}
	if s.until.IsZero() {
		s.until = now.Add(policy.LockTimeout)
	}
	switch s.c.wait(s.q.Context, f, s.until, f.since.Add(policy.LockAge)) {
	case clientGone:
		return nil, s.q.Context.Err()
	case notKept:
		return s.fetch()
	case outOfTime:
		return s.pass()
	}
	return nil, nil
}

// lead makes a flight, unless one has landed since the request looked.
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

// use answers from what is there, or fetches it if it has just gone.
func (s *session) use(state State, now time.Time) (*Response, error) {
	if a := s.hit(state, now); a != nil {
		return a, nil
	}
	return s.miss()
}

// miss fetches what is not there any more, or cannot be read. If slow clients hold too much memory the origin's response goes through.
func (s *session) miss() (*Response, error) {
	s.old, s.state, s.why = nil, StateMiss, "uri-miss"
	if s.crowded {
		return s.pass()
	}
	return s.fetch()
}

// hit answers from what is there: nil if it cannot be read, and then it is forgotten, unless that will pass.
func (s *session) hit(state State, now time.Time) *Response {
	a := &Response{Status: s.old.status, Header: s.old.header, State: state, stored: s.old, at: now}
	if fromMemory := !s.old.inFile && s.acquire(a); !fromMemory {
		f := s.c.index.fileOf(s.entry)
		if f == nil {
			s.crowded = !s.old.inFile
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
	if s.rules.policy.Status {
		s.note(a, "hit; ttl=", strconv.FormatInt(int64(s.old.life.fresh.Sub(now)/time.Second), 10))
	}
	return a
}

// acquire has the stored body stay in memory while it is sent. Without room for that it reports false: the body is to be read from its
// file then.
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

// updateBehind answers with what is stale, and updates it behind the request's back.
func (s *session) updateBehind(now time.Time) (*Response, error) {
	a := s.hit(StateStale, now)
	if a == nil {
		return s.miss() // with the flight: nobody looks once more, who would leave that to nobody
	}
	ask := s.ask()
	ask.Behind = true
	s.fields.find()
	if s.c.behind.Add(1) <= maxBackground {
		if fetch, err := s.origin.Prepare(ask); err == nil {
			s.c.updateLater(*s, fetch, ask)
			return a, nil
		}
	}
	s.c.behind.Add(-1)
	s.land()
	return a, nil
}

// updateLater goes on for a session whose request does not wait.
func (c *Cache) updateLater(s session, fetch Fetch, ask OriginRequest) {
	s.behind = true
	c.routines.Go(func() {
		defer c.behind.Add(-1)
		defer s.land()
		defer c.contain()
		a, err := s.fetched(fetch, ask)
		switch {
		case err != nil:
		case a.Passed != nil:
			_ = a.Passed.Body.Close()
		default:
			if a.come != nil {
				a.come.f.leave(updatedFor)
			}
			a.Close()
		}
	})
}

// contain keeps a panic of an origin from ending the process, and says it: there is no request whose server would.
func (c *Cache) contain() { c.panicked(recover()) }

// panicked says a panic of an origin, with the stack, if that is one. As for servers http.ErrAbortHandler is none to be told of.
func (c *Cache) panicked(p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
		c.errors.Printf("cache %s: the origin panicked: %v\n%s", c.name, p, debug.Stack())
	}
}

// land ends the request's flight, unless it was ended, or goes on without it.
func (s *session) land() { s.c.end(s.flight, true) }

// missed says why nothing was found.
func (s *session) missed() string {
	if s.c.index.has(s.id) {
		return "vary-miss"
	}
	return "uri-miss"
}

// ask is what the origin is asked for so that the answer can be kept.
func (s *session) ask() OriginRequest {
	ask := OriginRequest{Method: s.q.Method, Whole: true}
	if ask.Method == http.MethodHead && !s.rules.policy.KeepHead {
		ask.Method = http.MethodGet
	}
	if s.old != nil && s.rules.policy.Revalidate {
		ask.Etag, ask.LastModified = s.old.validators()
	}
	return ask
}

// fetch has the origin answer, and keeps the answer if it may.
func (s *session) fetch() (*Response, error) {
	if s.old == nil && !s.keeps() {
		return s.pass()
	}
	defer s.land()
	ask := s.ask()
	fetch, err := s.origin.Prepare(ask)
	if err != nil {
		return nil, err
	}
	return s.fetched(fetch, ask)
}

// fetched asks the origin and decides what its answer means. The origin is asked on although the client be gone.
func (s *session) fetched(fetch Fetch, ask OriginRequest) (*Response, error) {
	in := &intake{c: s.c, id: s.id, flight: s.flight, change: s.c.changes.of(s.id).Load(), purges: s.c.purges.Load()}
	asked := time.Now()
	resp, err := s.c.detached(s.q.Context, fetch)
	now := time.Now()
	if err != nil {
		if s.old != nil && s.rules.mayFail(&s.old.life, err, now) {
			if a := s.standIn(now, ""); a != nil {
				return a, nil
			}
		}
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && (ask.Etag != "" || ask.LastModified != ""):
		return s.revalidated(in, resp, asked, now)
	case s.old != nil && s.rules.mayReplace(&s.old.life, resp.StatusCode, now):
		if a := s.standIn(now, "; fwd-status="+strconv.Itoa(resp.StatusCode)); a != nil {
			_ = resp.Body.Close()
			return a, nil
		}
	}
	life, why := s.rules.judge(&s.q, &s.fields, resp, asked, now)
	if why == "" && s.keeps() {
		if a := s.take(in, resp, life); a != nil {
			a.State, a.at = s.state, now
			s.note(a, "fwd=", s.why, "; fwd-status=", strconv.Itoa(resp.StatusCode), "; stored")
			return a, nil
		}
		why = "size"
	}
	if why != "" && resp.StatusCode < 500 { // an origin in trouble is asked by one at a time
		s.c.uncacheable.mark(s.id, now.Add(uncacheable))
	}
	if s.entry != nil && s.supersedes(resp.StatusCode, why) {
		s.c.index.drop(s.entry)
	}
	s.c.end(s.flight, false)
	return s.notKept(resp), nil
}

// supersedes reports whether an answer that is not kept is what the origin has instead of the one that is stale. That would be served for
// as long as it is updated else, which never succeeds.
func (s *session) supersedes(status int, why string) bool {
	found := status < http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusGone
	return found && !s.q.NoStore && (why == "cache-control" || why == notFresh || why == diverted)
}

// detached asks the origin on behalf of the cache: neither the end of the client's request nor its deadline ends it, until its body is
// closed.
func (c *Cache) detached(of context.Context, fetch Fetch) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(of))
	stop := context.AfterFunc(c.closing, cancel)
	body := &ending{end: func() {
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
	if resp.StatusCode == http.StatusSwitchingProtocols { // the caller needs the connection itself: it is the client's alone
		context.AfterFunc(of, body.end)
		return resp, nil
	}
	resp.Body = body
	return resp, nil
}

// notKept passes an answer that might have been kept. It ends with the client's request.
func (s *session) notKept(resp *http.Response) *Response {
	a := s.passed(resp)
	if s.behind { // nobody gets it, and the client's request must not be looked at any more
		return a
	}
	body, ok := resp.Body.(*ending)
	if !ok { // a connection that speaks another protocol now
		return a
	}
	end, stop := body.end, context.AfterFunc(s.q.Context, body.end)
	body.end = func() {
		stop()
		end()
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength >= 0 && conditional(s.q.Header) { // which the origin was not asked
		a.Passed, a.come = nil, &growing{ctx: s.q.Context, f: passing(resp), pieces: &s.c.pieces}
	}
	return a
}

// standIn answers with what is stale instead of an error.
func (s *session) standIn(now time.Time, said string) *Response {
	a := s.hit(StateStale, now)
	if a != nil {
		s.note(a, "fwd=stale", said)
	}
	return a
}

// take begins to keep an answer: nil if that cannot be.
func (s *session) take(in *intake, resp *http.Response, life lifetime) *Response {
	header, ok := keptHeader(resp.Header)
	if !ok {
		return nil
	}
	if header["Date"] == nil { // RFC 9110, 6.6.1
		header["Date"] = []string{life.received.UTC().Format(http.TimeFormat)}
	}
	head := &stored{key: s.q.Key, status: resp.StatusCode, header: header, life: life}
	if !s.rules.ignore.vary {
		if head.choices, ok = choices(resp.Header["Vary"], &s.fields); !ok {
			return nil
		}
	}
	in.head = head
	if length := resp.Header["Content-Length"]; head.headOnly() && length != nil {
		header["Content-Length"] = length // the body that it tells of is not there
	}
	if !in.begin(resp) {
		return nil
	}
	s.flight = nil // the intake ends it
	if !head.headOnly() && resp.ContentLength >= 0 && resp.StatusCode != http.StatusNoContent {
		header = header.Clone()
		header["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	return &Response{Status: resp.StatusCode, Header: header, stored: head, come: &growing{ctx: s.q.Context, f: in.fill, pieces: &s.c.pieces}}
}

// pass has the origin answer, with an answer that is not kept.
func (s *session) pass() (*Response, error) {
	defer s.land()
	fetch, err := s.origin.Prepare(OriginRequest{Method: s.q.Method})
	if err != nil {
		return nil, err
	}
	resp, err := fetch(s.q.Context)
	if err != nil {
		return nil, err
	}
	return s.passed(resp), nil
}

func (s *session) passed(resp *http.Response) *Response {
	a := &Response{Status: resp.StatusCode, Header: resp.Header, Passed: resp, State: s.state}
	s.note(a, "fwd=", s.why)
	return a
}

// passMethod passes a request whose response is never stored. If the policy is to invalidate, and the request may have changed
// something, what is stored under its key is removed.
func (s *session) passMethod() (*Response, error) {
	s.why = "method"
	a, err := s.pass()
	if err == nil && s.rules.policy.Invalidate && a.Status >= 200 && a.Status < 400 {
		switch s.q.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "REPORT", "SEARCH":
		default:
			s.c.Purge(s.q.Key)
		}
	}
	return a, err
}

// note sets what Cache-Status says.
func (s *session) note(a *Response, said ...string) {
	if s.rules.policy.Status {
		a.name, a.status = s.c.name, strings.Join(said, "")
	}
}
