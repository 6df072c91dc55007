package front

import (
	"net/http"
	"strings"
)

// malformed reports whether a request is one that nginx answers with 400, although a server may have let it pass: the method is not of
// upper-case letters, '_' and '-', a field that says one thing is there twice, or an HTTP/2 request names no host, or two. Rules of the
// configuration and applications would each see another request otherwise.
func malformed(r *http.Request) bool {
	return !validMethod(r.Method) || repeatsField(r.Header) || r.ProtoMajor >= 2 && !namesOneHost(r)
}

// validMethod reports whether nginx knows a method as one.
func validMethod(method string) bool {
	for i := range len(method) {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return method != ""
}

// repeatsField reports whether a field is there more than once of which there is at most one. Few requests repeat a field, so that
// only the lengths are looked at mostly.
func repeatsField(h http.Header) bool {
	for name, values := range h {
		if len(values) > 1 && isSingleton(name) {
			return true
		}
	}
	return false
}

func isSingleton(name string) bool {
	switch name {
	case "Authorization", "Content-Length", "Content-Range", "Expect", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since":
		return true
	}
	return false
}

// namesOneHost reports whether an HTTP/2 request says which host it is for, and says so once: a Host field beside the pseudo-header field
// :authority has the same value (RFC 9113, 8.3.1). net/http leaves that field in the header.
func namesOneHost(r *http.Request) bool {
	hosts := r.Header["Host"]
	return r.Host != "" && (len(hosts) == 0 || len(hosts) == 1 && strings.EqualFold(hosts[0], r.Host))
}
