package front

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/fetch"
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

		"upstream_cache_status": {get: cacheStatus},

		"request_body":      {get: requestBodyValue},
		"request_body_file": {get: requestBodyFile},
		"bytes_sent":        {get: bytesSent},
	}
}

// proxyFamilies are about the fields of upstreams' responses, and of those to the client.
func proxyFamilies() []variableFamily {
	return []variableFamily{
		{"sent_http_", func(name string) knownVariable {
			field := fieldName(name)
			return knownVariable{get: func(x *exchange) string { return joinValues(x.sentField(field)) }}
		}},
		{"upstream_http_", func(name string) knownVariable {
			return knownVariable{get: upstreamFieldVariable(name), needs: needsAnyResponse}
		}},
		{"upstream_cookie_", func(name string) knownVariable {
			return knownVariable{
				get:   func(x *exchange) string { return setCookie(x.upstreamField("Set-Cookie"), name) },
				needs: needsAnyResponse,
			}
		}},
	}
}

// attemptVariables have a value for each attempt.
func attemptVariables() map[string]knownVariable {
	of := func(value func(*fetch.Record) string) knownVariable {
		return knownVariable{
			get:   func(x *exchange) string { return x.attemptList(value) },
			needs: needsAttempts | needsAnyResponse, isSet: (*exchange).hasAttempts,
		}
	}
	return map[string]knownVariable{
		"upstream_addr":          of(attemptAddr),
		"upstream_status":        of(attemptStatus),
		"upstream_connect_time":  of(func(s *fetch.Record) string { return attemptTime(s.ConnectTime) }),
		"upstream_header_time":   of(func(s *fetch.Record) string { return attemptTime(s.HeaderTime) }),
		"upstream_response_time": of(func(s *fetch.Record) string { return attemptTime(s.ResponseTime) }),
		"upstream_response_length": of(func(s *fetch.Record) string {
			return strconv.FormatInt(s.BodyBytes, 10)
		}),
		"upstream_bytes_sent": of(func(s *fetch.Record) string { return strconv.FormatInt(s.BytesSent, 10) }),
		"upstream_bytes_received": of(func(s *fetch.Record) string {
			return strconv.FormatInt(s.BytesReceived, 10)
		}),
	}
}

// attemptList joins one value of all attempts as nginx does: with commas within an upstream
// request, with colons between them.
func (x *exchange) attemptList(value func(*fetch.Record) string) string {
	if x.proxy == nil {
		return ""
	}
	if len(stateOf(x).attempts) == 1 {
		return stateOf(x).attempts[0].List(value)
	}
	var b strings.Builder
	for i, t := range stateOf(x).attempts {
		if i > 0 {
			b.WriteString(" : ")
		}
		b.WriteString(t.List(value))
	}
	return b.String()
}

func (x *exchange) hasAttempts() bool {
	return x.proxy != nil && slices.ContainsFunc(stateOf(x).attempts, (*fetch.Attempts).HasAny)
}

// attemptTime formats a duration of an attempt, "-" if it is unknown.
func attemptTime(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return seconds(d)
}

func attemptStatus(s *fetch.Record) string {
	if s.Status == 0 {
		return "-"
	}
	return strconv.Itoa(s.Status)
}

func attemptAddr(s *fetch.Record) string {
	if strings.HasPrefix(s.Addr, "/") {
		return "unix:" + s.Addr
	}
	return s.Addr
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
		return stateOf(x).target
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

// field implements upstreamState.
func (p *proxyState) field(name string) []string {
	if p.upstreamHeader == nil && p.raw.sender != nil {
		p.upstreamHeader = p.clientMemory.Header()
	}
	return p.upstreamHeader[name]
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

// cacheStatus is $upstream_cache_status.
func cacheStatus(x *exchange) string {
	if s := stateOf(x); s != nil {
		return string(s.cacheState)
	}
	return ""
}
