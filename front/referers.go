package front

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
)

// refererModule compares Referer with valid_referers.
func refererModule() module {
	return module{
		compile: func(c *compiler, s *conf.Settings, _ slot) (e effect, err error) {
			if s.Referers != nil {
				e.rules, err = c.referers(s.Referers)
			}
			return e, err
		},
		variables: func(at slot) map[string]knownVariable {
			return map[string]knownVariable{"invalid_referer": {
				get: func(x *exchange) string {
					if r, ok := x.moduleRules(at).(*referers); !ok || r.valid(x, x.r.Header["Referer"]) {
						return ""
					}
					return "1"
				},
				isCached: true, isReplaceable: true, isSetWhenEmpty: true,
			}}
		},
	}
}

// referers are a Referers, compiled.
type referers struct {
	none, blocked bool
	names         *hostname.Map[string] // to the prefix that a URL's path must have
	hosts         []*pattern            // for host names
	urls          []*pattern            // for all that follows the scheme
}

const (
	shortestReferer = len("http://i.ru") // shorter ones are "blocked"
	maxRefererName  = 256                // longer names are invalid
)

// referers compiles the valid referers.
func (c *compiler) referers(from *conf.Referers) (*referers, error) {
	if len(from.Names) == 0 && len(from.Patterns) == 0 {
		return nil, errors.New("valid referers: want Names or Patterns")
	}
	r := &referers{none: from.None, blocked: from.Blocked, names: hostname.NewMap[string]()}
	var err error
	for _, name := range from.Names {
		if source, ok := strings.CutPrefix(name, "~"); ok {
			r.hosts, err = c.appendPattern(r.hosts, source)
		} else {
			host, path := cutPath(name)
			err = r.names.Add(hostname.LowerASCII(host), path)
		}
		if err != nil {
			return nil, fmt.Errorf("valid referers: %w", err)
		}
	}
	for _, source := range from.Patterns {
		if r.urls, err = c.appendPattern(r.urls, source); err != nil {
			return nil, fmt.Errorf("valid referers: %w", err)
		}
	}
	return r, nil
}

// appendPattern appends a regular expression whose groups are not used.
func (c *compiler) appendPattern(all []*pattern, source string) ([]*pattern, error) {
	p, err := c.parsePattern(source, true)
	return append(all, p), err
}

// cutPath splits a host from the path that may follow.
func cutPath(s string) (host, path string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// valid reports whether a Referer is valid. As in nginx the first of several fields counts.
func (r *referers) valid(x *exchange, fields []string) bool {
	if len(fields) == 0 {
		return r.none
	}
	url, ok := cutHTTP(fields[0])
	if !ok {
		return r.blocked
	}
	end := strings.IndexAny(url, "/:")
	if end < 0 {
		end = len(url)
	}
	if end > maxRefererName {
		return false
	}
	name := hostname.LowerASCII(url[:end])
	if begins, ok := r.names.Find(name); ok {
		_, path := cutPath(url[end:])
		return strings.HasPrefix(path, begins)
	}
	return anyMatches(x, r.hosts, name) || anyMatches(x, r.urls, url)
}

// cutHTTP removes the scheme of an http or https URL.
func cutHTTP(url string) (rest string, ok bool) {
	if len(url) < shortestReferer {
		return url, false
	}
	for _, scheme := range [...]string{"http://", "https://"} {
		if strings.EqualFold(url[:len(scheme)], scheme) {
			return url[len(scheme):], true
		}
	}
	return url, false
}
