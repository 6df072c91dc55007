package http3

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go/http3/qlog"
	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/internal/wire/http2"
)

// requestFields are the fields of a request that decide whether quic-go rejects it. Its rules are
// repeated here, because only they tell a malformed request from one whose handler starts late.
type requestFields struct {
	method, scheme, authority, path, protocol *string // nil if absent
	length, host                              *string
	hasFields                                 bool // fields that are no pseudo-header fields
}

// isMalformed reports whether quic-go rejects a request with these fields (RFC 9114, 4.1.2). It
// marks characters that are invalid itself, and reports no field after the first fault.
func isMalformed(fields []qlog.HeaderField) bool {
	var r requestFields
	for i := range fields {
		f := &fields[i]
		if f.InvalidName || f.InvalidValue {
			return true
		}
		isValid := false
		if strings.HasPrefix(f.Name, ":") {
			isValid = r.addPseudo(f)
		} else {
			isValid = r.add(f)
		}
		if !isValid {
			return true
		}
	}
	return !r.isLengthValid() || !r.isTargetValid()
}

// addPseudo adds a pseudo-header field, and reports whether it is valid.
func (r *requestFields) addPseudo(f *qlog.HeaderField) bool {
	var at **string
	switch f.Name {
	case ":method":
		at = &r.method
	case ":scheme":
		at = &r.scheme
	case ":authority":
		at = &r.authority
	case ":path":
		at = &r.path
	case ":protocol":
		at = &r.protocol
	default:
		return false
	}
	if *at != nil || r.hasFields {
		return false
	}
	*at = &f.Value
	return true
}

// add adds another field, and reports whether it is valid.
func (r *requestFields) add(f *qlog.HeaderField) bool {
	r.hasFields = true
	switch f.Name {
	case "te":
		return f.Value == "trailers"
	case "content-length":
		if r.length != nil {
			return *r.length == f.Value
		}
		r.length = &f.Value
	case "host":
		if r.host != nil {
			return false
		}
		r.host = &f.Value
	default:
		return !http2.ConcernsConnection(f.Name)
	}
	return true
}

func (r *requestFields) isLengthValid() bool {
	if text := value(r.length); text != "" {
		_, err := strconv.ParseUint(text, 10, 63)
		return err == nil
	}
	return true
}

// isTargetValid reports whether the method, the host and the path are valid together.
func (r *requestFields) isTargetValid() bool {
	method, scheme := value(r.method), strings.ToLower(value(r.scheme))
	authority, path, protocol := value(r.authority), value(r.path), value(r.protocol)
	isConnect, isHTTP := method == http.MethodConnect, scheme == "http" || scheme == "https"
	if r.authority == nil && !isConnect && isHTTP {
		authority = value(r.host)
	}
	switch {
	case !httpguts.ValidHeaderFieldName(method): // both are tokens
		return false
	case r.authority != nil && r.host != nil && authority != *r.host:
		return false
	case isHTTP && strings.Contains(authority, "@"), authority == "":
		return false
	case isConnect && protocol == "":
		return r.scheme == nil && r.path == nil && r.protocol == nil
	case isConnect && (scheme == "" || !httpguts.ValidHeaderFieldName(protocol)):
		return false
	case !isConnect && r.protocol != nil:
		return false
	case !strings.HasPrefix(path, "/") && (method != http.MethodOptions || path != "*"):
		return false
	}
	_, err := url.ParseRequestURI(path)
	return err == nil
}

// value returns the value of a field, or "" if it is absent.
func value(field *string) string {
	if field == nil {
		return ""
	}
	return *field
}
