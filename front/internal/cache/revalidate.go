package cache

import (
	"errors"
	"net/http"
	"time"
)

// revalidated serves the stored response after a 304. If the 304 is about another response, it
// requests the whole response.
func (s *session) revalidated(resp *http.Response, sentAt, now time.Time, still func() bool) (*Response, error) {
	_ = resp.Body.Close()
	if !s.old.holds(resp.Header) || s.rules.replaces(resp.Header) {
		return s.refetch()
	}
	old, fresh := s.old, s.old.refreshed(resp.Header)
	merged := &http.Response{StatusCode: old.status, Header: fresh.header}
	life, chosen, why := s.rules.judge(&s.q, merged, sentAt, now)
	life.grow(ageOf(resp.Header))
	fresh.life, fresh.choices = life, chosen
	s.old = fresh
	a := s.hit(StateRevalidated, now)
	switch {
	case a == nil:
		return s.refetch()
	case why == "" && s.q.NoStore:
	case why == "":
		s.c.refresh(s.entry, old, fresh, still)
	case why != notFresh:
		s.c.index.drop(s.entry)
	}
	return a, nil
}

// refetch requests the whole response, because the stored one cannot be used. In a background update
// the client's request may have ended: then refetch drops the entry, and the next request fetches.
func (s *session) refetch() (*Response, error) {
	if s.behind {
		s.c.index.drop(s.entry)
		return nil, errNotUsable
	}
	s.old = nil
	return s.fetch()
}

var errNotUsable = errors.New("cache: the stored response is no longer usable")

// refresh makes a validated response fresh. If its file cannot be updated, the response is
// validated again after a restart.
func (c *Cache) refresh(e *entry, old, fresh *stored, still func() bool) {
	if !c.index.replace(e, old, fresh, still) {
		return
	}
	if f := c.index.fileOf(e); f != nil {
		_ = c.disk.describe(f, fresh)
	}
}
