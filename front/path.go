package front

import (
	"bytes"
	"net/url"
	"strings"
)

// findPath sets the path that locations are found for. It reports false if the request target has none.
//
// No client may send a fragment (RFC 9112, 3.2). As in nginx it is no part of the path or the query. Unlike there it is not passed on:
// servers differ in what they make of it.
func (x *exchange) findPath() (ok bool) {
	target := x.r.URL
	if before, _, has := strings.Cut(x.r.RequestURI, "#"); has {
		u, err := url.ParseRequestURI(before)
		if err != nil {
			return false
		}
		target, x.args, x.uriChanged = u, u.RawQuery, true
	}
	x.path, ok = requestPath(target, x.host.keepSlashes)
	return ok
}

// requestPath is the path of a request target as locations see it: decoded, with its dots resolved and its slashes merged, each once.
// What is found for it is what is served. It reports false for what is no path, or leads above the root. A target with a scheme and no
// host is rejected: what is passed on would mean something else there.
func requestPath(target *url.URL, keepSlashes bool) (string, bool) {
	path := target.Path
	if path == "" && target.Host != "" {
		path = "/" // of an absolute URI
	}
	if target.Scheme != "" && target.Host == "" {
		return "", false
	}
	return cleanPath(path, keepSlashes)
}

// cleanPath resolves dots, and merges slashes unless they are kept.
func cleanPath(path string, keepSlashes bool) (string, bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case 0:
			return "", false
		case '/':
			if i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '/' && !keepSlashes) {
				return resolve(path, keepSlashes)
			}
		}
	}
	return path, true
}

// resolve is the slow half of cleanPath.
func resolve(path string, keepSlashes bool) (string, bool) {
	clean := make([]byte, 0, len(path))
	for i := 0; i < len(path); {
		end := strings.IndexByte(path[i+1:], '/') // path[i] is a slash
		if end < 0 {
			end = len(path)
		} else {
			end += i + 1
		}
		last := end == len(path)
		switch segment := path[i+1 : end]; {
		case strings.IndexByte(segment, 0) >= 0:
			return "", false
		case segment == ".." && len(clean) == 0:
			return "", false
		case segment == "..":
			clean = clean[:bytes.LastIndexByte(clean, '/')]
			if last {
				clean = append(clean, '/')
			}
		case segment == ".", segment == "" && !keepSlashes:
			if last {
				clean = append(clean, '/')
			}
		default:
			clean = append(clean, path[i:end]...)
		}
		i = end
	}
	return string(clean), true
}

// escapePath writes a path as it is sent: what a URI has no room for is encoded.
func escapePath(path string) string { return escape(path, false) }

// escapeArgs writes text as a part of a query.
func escapeArgs(s string) string { return escape(s, true) }

// escape encodes what would end a path, and what no URI has (RFC 3986, 2) but for brackets, which nginx leaves, too; of a query also
// what divides it.
func escape(s string, query bool) string {
	const hex = "0123456789ABCDEF"
	more := 0
	for i := 0; i < len(s); i++ {
		if escapes(s[i], query) {
			more += 2
		}
	}
	if more == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+more)
	for i := 0; i < len(s); i++ {
		if c := s[i]; escapes(c, query) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func escapes(c byte, query bool) bool {
	switch c {
	case '%', '?', '#', '"', '<', '>', '\\', '^', '`', '{', '|', '}':
		return true
	case '&', '+', ';':
		return query
	}
	return c <= ' ' || c >= 0x7f
}

// withArgs adds a query to a path that has none.
func withArgs(path, args string) string {
	if args == "" {
		return path
	}
	return path + "?" + args
}

// splitArgs splits a path that configuration or an upstream gave, which may have a query.
func splitArgs(uri string) (path, args string) {
	path, args, _ = strings.Cut(uri, "?")
	return path, args
}
