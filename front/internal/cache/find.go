package cache

import "net/http"

// Find returns the stored response for a request, or a Miss if the origin must receive a request. It
// may wait for the request of another client. Its errors are of type *Error, and do not affect other
// requests.
func (c *Cache) Find(q Query) (*Response, *Miss, error) {
	s := session{c: c, q: q, why: "bypass", rules: q.Rules}
	a, err := s.respond()
	switch {
	case err != nil:
		return nil, nil, &Error{s.state, err}
	case s.isMissing:
		return nil, &Miss{s: s}, nil
	}
	return a, nil, nil
}

// Miss is a request that the origin must receive. The caller makes it from the client's request and
// from Request, and sends it by Send. Close must be called.
type Miss struct {
	s      session
	isSent bool
}

// Request returns how the request to the origin differs from the client's.
func (m *Miss) Request() OriginRequest { return m.s.request }

// Send sends the request by do, and returns the response for the client. With OriginRequest.Behind
// do runs in the background, and must not use the client's request. Send returns another Miss if the
// origin has confirmed a stored response that can no longer be used. Its errors are as those of Find.
func (m *Miss) Send(do Fetch) (a *Response, next *Miss, err error) {
	s := &m.s
	if m.isSent, s.isMissing = true, false; s.behind {
		s.c.updateLater(*s, do)
		return s.stale, nil, nil
	}
	defer func() {
		if !s.isMissing {
			s.land()
		}
	}()
	if s.passes {
		a, err = s.sendPassed(do)
	} else {
		a, err = s.fetched(do)
	}
	switch {
	case err != nil:
		return nil, nil, &Error{s.state, err}
	case s.isMissing:
		return nil, &Miss{s: *s}, nil
	}
	return a, nil, nil
}

// sendPassed sends a request whose response is not stored.
func (s *session) sendPassed(do Fetch) (*Response, error) {
	resp, err := do(s.q.Context)
	if err != nil {
		return nil, err
	}
	if s.invalidates && resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusBadRequest {
		s.c.Purge(s.q.Key)
	}
	return s.passed(resp), nil
}

// Close lets other requests no longer wait for this one, unless it was sent.
func (m *Miss) Close() {
	if m.isSent {
		return
	}
	if m.s.behind {
		m.s.c.behind.Add(-1)
		m.s.stale.Close()
	}
	m.s.land()
}
