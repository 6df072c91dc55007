package message

import (
	"net"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

// Malformed reports whether nginx rejects a request with 400, although a server may have accepted
// it. Its method has characters other than upper-case letters, '_' and '-', a singleton field is
// repeated, or it names no host, or two. Otherwise rules of the configuration and applications
// would disagree about the request. It also returns the number of field lines in the header.
func Malformed(r *http.Request) (isMalformed bool, fields int) {
	repeats := false
	for name, values := range r.Header { // few requests repeat any field, so that only lengths are compared
		fields += len(values)
		repeats = repeats || len(values) > 1 && isSingleton(name)
	}
	return repeats || !validMethod(r.Method) || !namesOneHost(r), fields
}

// validMethod reports whether nginx accepts a method.
func validMethod(method string) bool {
	for i := range len(method) {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return method != ""
}

func isSingleton(name string) bool {
	switch name {
	case "Authorization", "Content-Length", "Content-Range", "Expect", "If-Match", "If-Modified-Since",
		"If-None-Match", "If-Range", "If-Unmodified-Since":
		return true
	}
	return false
}

// namesOneHost reports whether a request names one host, which HTTP/1.0 does not require. Over
// HTTP/2 a Host field besides :authority must have the same value (RFC 9113, 8.3.1). net/http
// leaves that field in the header.
func namesOneHost(r *http.Request) bool {
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
	_, err = grammar.ParsePort(port)
	return err == nil
}
