package front

import (
	"strconv"
	"strings"
)

// proxyVariables are about upstreams.
func proxyVariables() map[string]knownVariable {
	return map[string]knownVariable{
		"proxy_host": {get: func(x *exchange) string { return x.proxyTargetName().host }, isReplaceable: true},
		"proxy_port": {get: func(x *exchange) string { return x.proxyTargetName().port }, isReplaceable: true},

		"proxy_add_x_forwarded_for":  {get: addForwardedFor},
		"proxy_internal_body_length": {get: func(x *exchange) string { return contentLength(x.r) }},

		"fastcgi_script_name": {get: func(x *exchange) string { name, _ := x.script(); return name }},
		"fastcgi_path_info": {
			get: func(x *exchange) string { _, info := x.script(); return info }, isSetWhenEmpty: true,
		},

		"upstream_cache_status": {get: func(x *exchange) string { return string(x.cacheState) }},
	}
}

// attemptVariables have a value for each attempt.
func attemptVariables() map[string]knownVariable {
	of := func(value func(*attemptRecord) string) knownVariable {
		return knownVariable{
			get:   func(x *exchange) string { return x.attemptList(value) },
			needs: needsAttempts | needsAnyResponse,
		}
	}
	return map[string]knownVariable{
		"upstream_addr":          of(attemptAddr),
		"upstream_status":        of(attemptStatus),
		"upstream_connect_time":  of(func(s *attemptRecord) string { return attemptTime(s.connectTime) }),
		"upstream_header_time":   of(func(s *attemptRecord) string { return attemptTime(s.headerTime) }),
		"upstream_response_time": of(func(s *attemptRecord) string { return attemptTime(s.responseTime) }),
		"upstream_response_length": of(func(s *attemptRecord) string {
			return strconv.FormatInt(s.bodyBytes, 10)
		}),
	}
}

func attemptAddr(s *attemptRecord) string {
	if strings.HasPrefix(s.addr, "/") {
		return "unix:" + s.addr
	}
	return s.addr
}

// upstreamFieldVariable returns $upstream_http_NAME.
func upstreamFieldVariable(name string) variable {
	field := fieldName(name)
	return func(x *exchange) string {
		values := x.upstreamField(field)
		if field == "Set-Cookie" && len(values) > 1 {
			values = values[:1] // as in nginx: cookies cannot be joined
		}
		return joinValues(values)
	}
}

// proxyTargetName returns the target of the exchange's location.
func (x *exchange) proxyTargetName() targetName {
	if x.proxy != nil {
		return x.proxy.target
	}
	if x.loc != nil {
		switch p := x.loc.content.(type) {
		case *proxy:
			return p.target.name
		case *boundHandler:
			return p.proxy.target.name
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
	if x.proxy == nil {
		return nil
	}
	if x.proxy.upstreamHeader == nil && x.proxy.raw.sender != nil {
		x.proxy.upstreamHeader = x.proxy.clientMemory.Header()
	}
	return x.proxy.upstreamHeader[name]
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
