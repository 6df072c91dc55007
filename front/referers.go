package front

import (
	"errors"
	"fmt"
	"strings"
)

// referers are a Referers, compiled.
type referers struct {
	none, blocked bool
	names         *hostNames[string] // what the path of a URL there begins with
	hosts         []*pattern         // of names
	urls          []*pattern         // of all that is behind the scheme
}

const (
	shortestReferer = len("http://i.ru") // what is shorter counts as blocked
	maxRefererName  = 256                // longer names are those of no host
)

// referers compiles what referers are valid; nil is all of them.
func (c *compiler) referers(from *Referers) (*referers, error) {
	if from == nil {
		return nil, nil
	}
	if len(from.Names) == 0 && len(from.Patterns) == 0 {
		return nil, errors.New("no referers are valid: want Names or Patterns")
	}
	r := &referers{none: from.None, blocked: from.Blocked, names: newHostNames[string]()}
	var err error
	for _, name := range from.Names {
		if source, ok := strings.CutPrefix(name, "~"); ok {
			r.hosts, err = c.appendPattern(r.hosts, source)
		} else {
			host, path := cutPath(name)
			err = r.names.add(lowerASCII(host), path)
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

// alsoPattern adds a regular expression whose groups nobody asks for.
func (c *compiler) appendPattern(all []*pattern, source string) ([]*pattern, error) {
	p, err := c.parsePattern(source, true)
	return append(all, p), err
}

// cutPath splits what may have a path behind a host.
func cutPath(s string) (host, path string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// invalidReferer is $invalid_referer.
func invalidReferer(x *exchange) string {
	if r := x.loc.referers; r == nil || r.valid(x, x.r.Header["Referer"]) {
		return ""
	}
	return "1"
}

// valid reports whether a page may lead here. Of several fields the first counts, as in nginx.
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
	name := lowerASCII(url[:end])
	if begins, ok := r.names.find(name); ok {
		_, path := cutPath(url[end:])
		return strings.HasPrefix(path, begins)
	}
	return anyMatches(x, r.hosts, name) || anyMatches(x, r.urls, url)
}

// cutHTTP takes the scheme from a URL of http or https.
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

// anyFits reports whether one of several patterns fits.
func anyMatches(x *exchange, all []*pattern, s string) bool {
	for _, p := range all {
		if p.matchOnly(x, s) {
			return true
		}
	}
	return false
}
