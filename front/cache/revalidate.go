package cache

import (
	"errors"
	"net/http"
	"time"
)

// revalidated answers with what was there, which the origin says holds. If that is about another answer it is asked again, for
// all of it.
func (s *session) revalidated(in *intake, resp *http.Response, asked, now time.Time) (*Response, error) {
	_ = resp.Body.Close()
	if !s.old.holds(resp.Header) || s.rules.diverts(resp.StatusCode, resp.Header) {
		return s.anew()
	}
	old, fresh := s.old, s.old.refreshed(resp.Header)
	merged := &http.Response{StatusCode: old.status, Header: fresh.header}
	life, why := s.rules.judge(&s.q, &s.fields, merged, asked, now)
	life.grow(ageOf(resp.Header))
	fresh.life = life
	if !s.rules.ignore.vary {
		var ok bool
		if fresh.choices, ok = choices(fresh.header["Vary"], &s.fields); !ok {
			why = "vary"
		}
	}
	s.old = fresh
	a := s.hit(StateRevalidated, now)
	switch {
	case a == nil:
		return s.anew()
	case why == "" && s.q.NoStore:
	case why == "":
		s.c.refresh(s.entry, old, fresh, in.still)
	case why != notFresh:
		s.c.index.drop(s.entry)
	}
	s.note(a, "fwd=stale; fwd-status=304")
	return a, nil
}

// anew fetches the whole response, as the stored one cannot be used. The request of a background update may have ended: the stored
// response is dropped then, and the next request fetches.
func (s *session) anew() (*Response, error) {
	if s.behind {
		s.c.index.drop(s.entry)
		return nil, errNotUsable
	}
	s.old = nil
	return s.fetch()
}

var errNotUsable = errors.New("cache: the stored response cannot be used any more")
