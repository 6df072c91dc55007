// Package uri normalizes and escapes paths and queries as nginx does.
package uri

import (
	"bytes"
	"net/url"
	"strings"
)

// RequestPath returns the path of a request target as locations see it: decoded once, with dot
// segments resolved and slashes merged. It returns false for a target without a path, or with a
// path above the root. A target with a scheme and no host is rejected, because upstreams would
// interpret it otherwise.
func RequestPath(target *url.URL, keepSlashes bool) (string, bool) {
	path := target.Path
	if path == "" && target.Host != "" {
		path = "/" // of an absolute URI
	}
	if target.Scheme != "" && target.Host == "" {
		return "", false
	}
	return CleanPath(path, keepSlashes)
}

// CleanPath resolves dot segments, and merges slashes unless keepSlashes.
func CleanPath(path string, keepSlashes bool) (string, bool) {
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

// resolve is the slow path of CleanPath.
func resolve(path string, keepSlashes bool) (string, bool) {
	clean, endsInSlash := make([]byte, 0, len(path)), false
	for segment := range strings.SplitSeq(path[1:], "/") {
		isUp := segment == ".."
		if strings.IndexByte(segment, 0) >= 0 || isUp && len(clean) == 0 {
			return "", false
		}
		if endsInSlash = isUp || segment == "." || segment == "" && !keepSlashes; !endsInSlash {
			clean = append(append(clean, '/'), segment...)
		} else if isUp {
			clean = clean[:bytes.LastIndexByte(clean, '/')]
		}
	}
	if endsInSlash {
		clean = append(clean, '/')
	}
	return string(clean), true
}

// EscapePath encodes what is not allowed in the path of a URI.
func EscapePath(path string) string { return escape(path, false) }

// EscapeArgument encodes what is not allowed in an argument of a query.
func EscapeArgument(s string) string { return escape(s, true) }

// escape encodes what would end a path, and what no URI allows (RFC 3986, 2) except brackets, as
// nginx. With query it also encodes delimiters of arguments.
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

// WithQuery appends a query to a path without one.
func WithQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}
