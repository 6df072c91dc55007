package message

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// ValidMethod reports whether nginx accepts a method.
func ValidMethod(method string) bool {
	for i := range len(method) {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return method != ""
}

// IsSingleton reports whether a field must not be repeated.
func IsSingleton(name string) bool {
	switch name {
	case "Authorization", "Content-Length", "Content-Range", "Expect", "If-Match", "If-Modified-Since",
		"If-None-Match", "If-Range", "If-Unmodified-Since":
		return true
	}
	return false
}

// NamesOneHost reports whether a request names one host, which HTTP/1.0 does not require. Over
// HTTP/2 a Host field besides :authority must have the same value (RFC 9113, 8.3.1). net/http
// leaves that field in the header.
func NamesOneHost(r *http.Request) bool {
	if r.ProtoMajor < 2 {
		return r.Host != "" || r.ProtoMinor == 0
	}
	hosts := r.Header["Host"]
	return r.Host != "" && (len(hosts) == 0 || len(hosts) == 1 && strings.EqualFold(hosts[0], r.Host))
}

// IsAuthority reports whether a target is HOST:PORT.
func IsAuthority(target string) bool {
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
