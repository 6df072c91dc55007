package nginxconf

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

const (
	// builtinSessions is the number of sessions of ssl_session_cache builtin without one, as in
	// OpenSSL, and sessionBytes the memory that each takes.
	builtinSessions = 20480
	sessionBytes    = 512
	// the sizes of a file of ssl_session_ticket_key: AES-128 and AES-256
	ticketKeySize, longTicketKeySize = 48, 80
)

// sessions translates how TLS sessions are resumed: by tickets, or with ssl_session_tickets off
// from ssl_session_cache, if there is one.
func (t *translator) sessions(s *scope, l *conf.Listen) {
	l.TicketKeys = t.ticketKeys(s)
	l.SessionTimeout = s.time("ssl_session_timeout")
	if d := s.one("ssl_session_cache"); d != nil {
		t.sessionCache(d, l)
	}
	if s.flag("ssl_session_tickets", true) {
		l.SessionCache, l.SessionCacheBytes = "", 0
	}
}

func (t *translator) sessionCache(d *syntax.Directive, l *conf.Listen) {
	for _, arg := range d.Args {
		kind, rest, _ := strings.Cut(arg, ":")
		switch kind {
		case "off", "none":
			l.SessionCache = ""
		case "builtin":
			number, err := builtinSessions, error(nil)
			if arg != kind {
				number, err = strconv.Atoi(rest)
			}
			if err != nil || number < 0 {
				t.errorf(d, "invalid number of sessions %s (example: builtin:1000)", grammar.Quote(arg))
			}
			if number == 0 { // no limit
				number = builtinSessions
			}
			if !strings.HasPrefix(l.SessionCache, "shared:") { // which has precedence
				l.SessionCache, l.SessionCacheBytes = "builtin:"+d.Where(), int64(number)*sessionBytes
			}
		case "shared":
			name, size, _ := strings.Cut(rest, ":")
			n, err := grammar.ParseSize(size)
			switch {
			case err != nil || name == "":
				t.errorf(d, "invalid cache %s (must be shared:NAME:SIZE, such as shared:tls:1m)", grammar.Quote(arg))
			case n < minZone:
				t.errorf(d, "%s is too small (at least shared:%s:32k)", grammar.Quote(arg), name)
			}
			l.SessionCache, l.SessionCacheBytes = "shared:"+name, n
		}
	}
}

// ticketKeys reads the keys of tickets. The first one encrypts. crypto/tls derives its own keys
// from 32 bytes: tickets are not those of an nginx with the same files.
func (t *translator) ticketKeys(s *scope) (keys [][32]byte) {
	for _, d := range s.all("ssl_session_ticket_key") {
		b, err := t.read(d)
		if err != nil {
			return nil
		}
		if len(b) != ticketKeySize && len(b) != longTicketKeySize {
			t.errorf(d, "%s has %d bytes, but %d or %d required (openssl rand %d)", grammar.Quote(d.Args[0]), len(b),
				ticketKeySize, longTicketKeySize, longTicketKeySize)
			return nil
		}
		keys = append(keys, sha256.Sum256(b))
	}
	return keys
}
