package front

import (
	"strconv"
	"strings"
)

// proxyVariable returns a variable about upstreams.
func proxyVariable(name string) (variable, bool) {
	switch name {
	case "proxy_host":
		return func(x *exchange) string { return x.proxyTargetName().host }, true
	case "proxy_port":
		return func(x *exchange) string { return x.proxyTargetName().port }, true
	case "proxy_add_x_forwarded_for":
		return addForwardedFor, true
	case "proxy_internal_body_length":
		return func(x *exchange) string { return contentLength(x.r) }, true
	case "fastcgi_script_name":
		return func(x *exchange) string { name, _ := x.script(); return name }, true
	case "fastcgi_path_info":
		return func(x *exchange) string { _, info := x.script(); return info }, true
	}
	if value := attemptVariable(name); value != nil {
		return func(x *exchange) string { return x.attemptList(value) }, true
	}
	if field, ok := strings.CutPrefix(name, "upstream_http_"); ok && field != "" {
		field = fieldName(field)
		return func(x *exchange) string {
			values := x.upstreamField(field)
			if field == "Set-Cookie" && len(values) > 1 {
				values = values[:1] // as in nginx: cookies cannot be joined
			}
			return joinValues(values)
		}, true
	}
	if cookie, ok := strings.CutPrefix(name, "upstream_cookie_"); ok && cookie != "" {
		return func(x *exchange) string { return setCookie(x.upstreamField("Set-Cookie"), cookie) }, true
	}
	return nil, false
}

// usesUpstreamResponse reports whether a variable depends on an upstream's response.
func usesUpstreamResponse(name string) bool {
	return attemptVariable(name) != nil || strings.HasPrefix(name, "upstream_http_") ||
		strings.HasPrefix(name, "upstream_cookie_")
}

// attemptVariable returns the value of a variable for one attempt.
func attemptVariable(name string) func(*attemptRecord) string {
	switch name {
	case "upstream_addr":
		return func(s *attemptRecord) string {
			if strings.HasPrefix(s.addr, "/") {
				return "unix:" + s.addr
			}
			return s.addr
		}
	case "upstream_status":
		return attemptStatus
	case "upstream_connect_time":
		return func(s *attemptRecord) string { return attemptTime(s.connectTime) }
	case "upstream_header_time":
		return func(s *attemptRecord) string { return attemptTime(s.headerTime) }
	case "upstream_response_time":
		return func(s *attemptRecord) string { return attemptTime(s.responseTime) }
	case "upstream_response_length":
		return func(s *attemptRecord) string { return strconv.FormatInt(s.bodyBytes, 10) }
	}
	return nil
}

// proxyTargetName returns the target of the exchange's location.
func (x *exchange) proxyTargetName() targetName {
	if x.proxyState != nil {
		return x.target
	}
	if x.loc != nil {
		switch p := x.loc.content.(type) {
		case *proxy:
			return p.target.name
		case *boundHandler:
			return p.target.name
		}
	}
	return targetName{}
}

// addForwardedFor is $proxy_add_x_forwarded_for.
func addForwardedFor(x *exchange) string {
	if forwarded := joinValues(x.r.Header["X-Forwarded-For"]); forwarded != "" {
		return forwarded + ", " + x.clientAddr()
	}
	return x.clientAddr()
}

// upstreamField returns a field of the last response.
func (x *exchange) upstreamField(name string) []string {
	if x.proxyState == nil {
		return nil
	}
	if x.upstreamHeader == nil && x.raw.sender != nil {
		x.upstreamHeader = x.clientMemory.Header()
	}
	return x.upstreamHeader[name]
}

// setCookie returns the value of a cookie in Set-Cookie fields; the first one counts.
func setCookie(lines []string, name string) string {
	for _, line := range lines {
		pair, _, _ := strings.Cut(line, ";")
		if n, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.Trim(n, " "), name) {
			return strings.Trim(value, " ")
		}
	}
	return ""
}
