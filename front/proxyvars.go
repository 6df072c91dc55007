package front

import (
	"strconv"
	"strings"
)

// passVariable finds those that tell of upstreams.
func passVariable(name string) (variable, bool) {
	switch name {
	case "proxy_host":
		return func(x *exchange) string { return x.goalName().host }, true
	case "proxy_port":
		return func(x *exchange) string { return x.goalName().port }, true
	case "proxy_add_x_forwarded_for":
		return addForwardedFor, true
	case "proxy_internal_body_length":
		return func(x *exchange) string { return contentLength(x.r) }, true
	case "fastcgi_script_name":
		return func(x *exchange) string { name, _ := x.script(); return name }, true
	case "fastcgi_path_info":
		return func(x *exchange) string { _, info := x.script(); return info }, true
	}
	if what := stepVariable(name); what != nil {
		return func(x *exchange) string { return x.told(what) }, true
	}
	if field, ok := strings.CutPrefix(name, "upstream_http_"); ok && field != "" {
		field = fieldName(field)
		return func(x *exchange) string {
			said := x.upstreamField(field)
			if field == "Set-Cookie" && len(said) > 1 {
				said = said[:1] // as in nginx: cookies cannot be joined
			}
			return joined(said)
		}, true
	}
	if cookie, ok := strings.CutPrefix(name, "upstream_cookie_"); ok && cookie != "" {
		return func(x *exchange) string { return setCookie(x.upstreamField("Set-Cookie"), cookie) }, true
	}
	return nil, false
}

// ofAnswer reports whether an upstream's answer gives a variable its value.
func ofAnswer(name string) bool {
	return stepVariable(name) != nil || strings.HasPrefix(name, "upstream_http_") || strings.HasPrefix(name, "upstream_cookie_")
}

// stepVariable is what a variable tells of each server that was asked.
func stepVariable(name string) func(*step) string {
	switch name {
	case "upstream_addr":
		return func(s *step) string {
			if strings.HasPrefix(s.addr, "/") {
				return "unix:" + s.addr
			}
			return s.addr
		}
	case "upstream_status":
		return stepStatus
	case "upstream_connect_time":
		return func(s *step) string { return passed(s.connect) }
	case "upstream_header_time":
		return func(s *step) string { return passed(s.header) }
	case "upstream_response_time":
		return func(s *step) string { return passed(s.whole) }
	case "upstream_response_length":
		return func(s *step) string { return strconv.FormatInt(s.bytes, 10) }
	}
	return nil
}

// goalName is where the location leads.
func (x *exchange) goalName() goalName {
	if x.passing != nil {
		return x.goal
	}
	if x.loc != nil {
		switch p := x.loc.content.(type) {
		case *pass:
			return p.to.name
		case *bound:
			return p.to.name
		}
	}
	return goalName{}
}

// addForwardedFor is X-Forwarded-For, with the client's address behind.
func addForwardedFor(x *exchange) string {
	if told := joined(x.r.Header["X-Forwarded-For"]); told != "" {
		return told + ", " + x.clientAddr()
	}
	return x.clientAddr()
}

// upstreamField is a field of the last answer.
func (x *exchange) upstreamField(name string) []string {
	if x.passing == nil {
		return nil
	}
	return x.upstreamHeader[name]
}

// setCookie is the value of a cookie that an answer sets; the first one counts.
func setCookie(lines []string, name string) string {
	for _, line := range lines {
		pair, _, _ := strings.Cut(line, ";")
		if n, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.Trim(n, " "), name) {
			return strings.Trim(value, " ")
		}
	}
	return ""
}
