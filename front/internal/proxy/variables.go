package proxy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
)

func proxyVariables() map[string]core.KnownVariable {
	return map[string]core.KnownVariable{
		"proxy_host": {Get: func(x *core.Exchange) string { return proxyTargetName(x).host }, IsReplaceable: true},
		"proxy_port": {Get: func(x *core.Exchange) string { return proxyTargetName(x).port }, IsReplaceable: true},

		"proxy_add_x_forwarded_for":  {Get: addForwardedFor},
		"proxy_internal_body_length": {Get: func(x *core.Exchange) string { return message.ContentLength(x.Request) }},

		"fastcgi_script_name": {Get: func(x *core.Exchange) string { name, _ := script(x); return name }},
		"fastcgi_path_info": {
			Get: func(x *core.Exchange) string { _, info := script(x); return info }, IsSet: core.AlwaysSet,
		},

		"upstream_cache_status": {Get: cacheStatus},

		"request_body":      {Get: func(x *core.Exchange) string { return x.Received.Text() }},
		"request_body_file": {Get: func(x *core.Exchange) string { return x.Received.FileName() }},
	}
}

// proxyFamilies are about the fields of upstreams' responses.
func proxyFamilies() []core.VariableFamily {
	return []core.VariableFamily{
		{Prefix: "upstream_http_", Of: upstreamFieldVariable, Needs: core.NeedsAnyResponse},
		{Prefix: "upstream_cookie_", Of: func(name string) core.Variable {
			return func(x *core.Exchange) string { return setCookie(x.UpstreamField("Set-Cookie"), name) }
		}, Needs: core.NeedsAnyResponse},
	}
}

// attemptVariables have a value for each attempt.
func attemptVariables() map[string]core.KnownVariable {
	of := func(value func(*fetch.Record) string) core.KnownVariable {
		return core.KnownVariable{
			Get:   func(x *core.Exchange) string { return attemptList(x, value) },
			Needs: core.NeedsAttempts | core.NeedsAnyResponse, IsSet: func(x *core.Exchange) bool {
				return x.Proxy != nil && slices.ContainsFunc(stateOf(x).attempts, (*fetch.Attempts).HasAny)
			},
		}
	}
	return map[string]core.KnownVariable{
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
func attemptList(x *core.Exchange, value func(*fetch.Record) string) string {
	if x.Proxy == nil {
		return ""
	}
	var all []string
	for _, attempts := range stateOf(x).attempts {
		all = append(all, attempts.List(value))
	}
	return strings.Join(all, " : ")
}

// attemptTime formats a duration of an attempt, "-" if it is unknown.
func attemptTime(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return core.Seconds(d)
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
func upstreamFieldVariable(name string) core.Variable {
	field := core.FieldName(name)
	return func(x *core.Exchange) string {
		values := x.UpstreamField(field)
		if field == "Set-Cookie" && len(values) > 1 {
			values = values[:1] // as in nginx: cookies cannot be joined
		}
		return strings.Join(values, ", ")
	}
}

// proxyTargetName returns the name of the location's target. As in nginx it is empty before the
// content phase, and in locations without a proxy.
func proxyTargetName(x *core.Exchange) targetName {
	p, s := proxyOf(x), stateOf(x)
	if p != nil && (s != nil && s.proxy == p || p.callsBound()) {
		return p.targetName(x)
	}
	return targetName{}
}

// targetName returns the name of the target, which may depend on variables.
func (p *proxy) targetName(x *core.Exchange) targetName {
	if s := stateOf(x); s != nil && !p.target.text.Constant() {
		return s.target
	}
	return p.target.name
}

func addForwardedFor(x *core.Exchange) string {
	// as in nginx an empty field counts
	return strings.Join(append(slices.Clip(x.Request.Header["X-Forwarded-For"]), x.ClientAddr()), ", ")
}

// Field implements upstreamState.
func (p *proxyState) Field(x *core.Exchange, name string) []string {
	if p.upstreamHeader == nil && x.Response.Raw.Text != nil {
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

func cacheStatus(x *core.Exchange) string {
	if s := stateOf(x); s != nil {
		return string(s.cacheState)
	}
	return ""
}
