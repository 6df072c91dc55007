package front

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
)

const (
	defaultSessionBytes   = 1 << 20
	defaultSessionTimeout = 10 * time.Minute
	// bytesPerSession is the memory of a session, as in nginx: 4,000 in a megabyte.
	bytesPerSession = 256
	// forever is the Max-Age of a cookie with expires=max.
	forever = 10 * 365 * 24 * time.Hour
)

// sticky is a Sticky, compiled.
type sticky struct {
	cookie                 *conf.StickyCookie // nil without a cookie
	domain, path, sameSite text               // of the cookie
	routes                 []text
	create, lookup         []text    // of sessions
	sessions               *sessions // nil without sessions
}

// sticky compiles a Sticky.
func (c *compiler) sticky(from *conf.Sticky) (*sticky, error) {
	if from == nil {
		return nil, nil
	}
	s := &sticky{cookie: from.Cookie}
	var err error
	texts := func(all []conf.Text) (compiled []text) {
		for _, one := range all {
			compiledText, textErr := c.text(one)
			if err = errors.Join(err, textErr); textErr == nil {
				compiled = append(compiled, compiledText)
			}
		}
		return compiled
	}
	s.routes = texts(from.Routes)
	switch k := from.Cookie; {
	case k != nil:
		if !validToken(k.Name) {
			return nil, fmt.Errorf("sticky: invalid cookie name %q", k.Name)
		}
		for _, attribute := range []struct {
			to   *text
			from conf.Text
		}{{&s.domain, k.Domain}, {&s.path, k.Path}, {&s.sameSite, k.SameSite}} {
			compiled := texts([]conf.Text{attribute.from})
			if len(compiled) > 0 {
				*attribute.to = compiled[0]
			}
		}
	case from.Learn != nil:
		s.create, s.lookup = texts(from.Learn.Create), texts(from.Learn.Lookup)
		s.sessions = c.sessions(from.Learn)
	}
	if err == nil && from.Cookie == nil && len(s.routes) == 0 && (len(s.create) == 0 || len(s.lookup) == 0) {
		err = errors.New("sticky: neither a cookie, nor routes, nor sessions")
	}
	return s, err
}

// firstText returns the first value that is not empty.
func firstText(x *exchange, all []text) string {
	for i := range all {
		if value := all[i].eval(x); value != "" {
			return value
		}
	}
	return ""
}

// route returns the route of the client's server, or "".
func (s *sticky) route(x *exchange) string {
	switch {
	case s.cookie != nil:
		if cookie, err := x.r.Cookie(s.cookie.Name); err == nil {
			return cookie.Value
		}
		return ""
	case s.sessions != nil:
		return s.sessions.find(firstText(x, s.lookup), time.Now())
	}
	return firstText(x, s.routes)
}

// bind binds the client to the server that responded.
func (s *sticky) bind(x *exchange, turn *upstream.Turn) {
	route := turn.Route()
	switch {
	case s.sessions != nil:
		if id := firstText(x, s.create); id != "" {
			s.sessions.bind(id, route, time.Now())
		}
	case s.cookie != nil && (s.cookie.Expires != 0 || s.route(x) != route):
		if line := s.setCookie(x, route); httpguts.ValidHeaderFieldValue(line) {
			header := x.w.Header()
			header["Set-Cookie"] = append(header["Set-Cookie"], line)
		}
	}
}

// setCookie returns a Set-Cookie field.
func (s *sticky) setCookie(x *exchange, route string) string {
	var b strings.Builder
	b.WriteString(s.cookie.Name + "=" + route)
	attribute := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" && !strings.ContainsRune(value, ';') {
			b.WriteString("; " + name + "=" + value)
		}
	}
	if expires := s.cookie.Expires; expires != 0 {
		if expires < 0 {
			expires = forever
		}
		attribute("Expires", time.Now().Add(expires).UTC().Format(http.TimeFormat))
		attribute("Max-Age", strconv.Itoa(int(expires/time.Second)))
	}
	attribute("Domain", s.domain.eval(x))
	attribute("Path", s.path.eval(x))
	if s.cookie.HTTPOnly {
		b.WriteString("; HttpOnly")
	}
	if s.cookie.Secure {
		b.WriteString("; Secure")
	}
	attribute("SameSite", s.sameSite.eval(x))
	return b.String()
}

// sessions are sessions of clients with the routes of their servers. If there are too many, the one
// that was unused for the longest time is dropped.
type sessions struct {
	timeout time.Duration

	mu   sync.Mutex
	byID *simplelru.LRU[sessionID, *session]
}

// sessionID is a hash of a session's identifier: clients choose the length of that.
type sessionID [sha256.Size]byte

type session struct {
	route string
	used  time.Time
}

// sessions returns the sessions of a zone, which plans share.
func (c *compiler) sessions(from *conf.StickyLearn) *sessions {
	limit, timeout := from.Bytes/bytesPerSession, from.Timeout
	if limit <= 0 {
		limit = defaultSessionBytes / bytesPerSession
	}
	if timeout <= 0 {
		timeout = defaultSessionTimeout
	}
	key := fmt.Sprint(from.Zone, " ", limit, " ", timeout)
	s, release, _ := acquire(&c.state.sessions, key, func() (*sessions, error) {
		byID, err := simplelru.NewLRU[sessionID, *session](int(limit), nil)
		return &sessions{timeout: timeout, byID: byID}, err
	}, func(*sessions) {})
	c.plan.releases = append(c.plan.releases, release)
	return s
}

// find returns the route of a session, or "", and records that it is in use.
func (s *sessions) find(id string, now time.Time) string {
	if id == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sessionID(sha256.Sum256([]byte(id)))
	found, ok := s.byID.Get(key)
	if !ok {
		return ""
	}
	if now.Sub(found.used) > s.timeout {
		s.byID.Remove(key)
		return ""
	}
	found.used = now
	return found.route
}

// bind adds or changes a session.
func (s *sessions) bind(id, route string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID.Add(sha256.Sum256([]byte(id)), &session{route, now})
	for _, last, ok := s.byID.GetOldest(); ok && now.Sub(last.used) > s.timeout; _, last, ok = s.byID.GetOldest() {
		s.byID.RemoveOldest()
	}
}
