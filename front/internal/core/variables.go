package core

import (
	"maps"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/realip"
)

// KnownVariable is a row of the table of nginx's variables. Variables that nginx has and that are
// not here are rows of grammar.Unavailable.
type KnownVariable struct {
	Get Variable
	// Set is how Set sets the variable; nil means that it cannot.
	Set func(x *Exchange, value string)
	// AppendTo replaces Get in lines of logs, and does not allocate; nil uses Get.
	AppendTo func(b []byte, x *Exchange, escape EscapeFunc) []byte
	Needs    needs
	// IsCached: the variable is evaluated at its first use, and then kept for the request.
	IsCached bool
	// IsReplaceable: a variable of the Config may have the same name, and replaces it.
	IsReplaceable bool
	// IsSet reports whether the variable is set if its value is empty; nil never does. In lines of
	// logs an empty variable that is not set is a dash.
	IsSet func(x *Exchange) bool
}

// AlwaysSet is IsSet of a variable that may be empty.
func AlwaysSet(*Exchange) bool { return true }

// needs are what an exchange must collect for a variable.
type needs uint8

const (
	NeedsStartTime   needs = 1 << iota // when the request began
	needsConnection                    // the connection, and the number of its requests
	NeedsCounts                        // numbers of all requests and connections
	NeedsAttempts                      // attempts of upstream requests
	NeedsAnyResponse                   // an upstream's response: the variable changes with it
)

// AllVariables returns the variables with fixed names, those of modules included.
func AllVariables(product string, modules []Module) map[string]KnownVariable {
	setArgs := func(x *Exchange, value string) { x.Args, x.URIChanged = value, true }
	constant := func(s string) Variable { return func(*Exchange) string { return s } }
	hostname, _ := os.Hostname() // without one it is empty
	_, version, _ := strings.Cut(product, "/")
	all := map[string]KnownVariable{
		"host":            {Get: (*Exchange).HostOrServerName, IsSet: AlwaysSet},
		"uri":             {Get: func(x *Exchange) string { return x.Path }, IsSet: AlwaysSet},
		"document_uri":    {Get: func(x *Exchange) string { return x.Path }, IsSet: AlwaysSet},
		"request_uri":     {Get: RequestURI},
		"args":            {Get: func(x *Exchange) string { return x.Args }, Set: setArgs},
		"query_string":    {Get: func(x *Exchange) string { return x.Args }},
		"is_args":         {Get: when("?", func(x *Exchange) bool { return x.Args != "" }), IsSet: AlwaysSet},
		"scheme":          {Get: Scheme},
		"https":           {Get: when("on", func(x *Exchange) bool { return x.Request.TLS != nil }), IsSet: AlwaysSet},
		"http2":           {Get: http2},
		"http3":           {Get: when("h3", func(x *Exchange) bool { return x.Request.ProtoMajor == 3 })},
		"server_protocol": {Get: func(x *Exchange) string { return x.Request.Proto }},

		"request_method":     {Get: requestMethod},
		"request":            {Get: requestLine, AppendTo: appendRequestLine},
		"request_length":     {Get: requestLength},
		"request_id":         {Get: RequestID},
		"request_time":       {Get: func(x *Exchange) string { return Seconds(time.Since(x.StartTime)) }, Needs: NeedsStartTime},
		"request_completion": {Get: when("OK", func(x *Exchange) bool { return x.isComplete }), IsSet: AlwaysSet},
		"content_length":     {Get: contentLengthVariable},
		"content_type":       {Get: func(x *Exchange) string { return x.Request.Header.Get("Content-Type") }},

		"status":          {Get: StatusVariable, AppendTo: appendStatus},
		"body_bytes_sent": {Get: BodyBytesSent, AppendTo: appendBodyBytes},
		"bytes_sent":      {Get: bytesSent},
		"limit_rate":      {Get: limitRate, Set: setLimitRate},

		"server_name": {Get: func(x *Exchange) string { return x.Host.name }, IsSet: AlwaysSet},
		"server_port": {Get: serverPort},
		"server_addr": {Get: serverAddr},

		"remote_addr":        {Get: (*Exchange).ClientAddr},
		"remote_port":        {Get: remotePort},
		"binary_remote_addr": {Get: binaryRemoteAddr},
		"realip_remote_addr": {Get: func(x *Exchange) string { return realip.AddrString(x.ClientAddress().peer) }},
		"realip_remote_port": {Get: func(x *Exchange) string { return realip.PortString(x.ClientAddress().peer) }},

		"proxy_protocol_addr":        inProxyHeader(func(source, _ netip.AddrPort) string { return proxyAddr(source) }),
		"proxy_protocol_port":        inProxyHeader(func(source, _ netip.AddrPort) string { return realip.PortString(source) }),
		"proxy_protocol_server_addr": inProxyHeader(func(_, to netip.AddrPort) string { return proxyAddr(to) }),
		"proxy_protocol_server_port": inProxyHeader(func(_, to netip.AddrPort) string { return realip.PortString(to) }),

		"connection":          {Get: connectionNumber},
		"connection_requests": ofConnection(func(u *connUse) string { return strconv.Itoa(u.requests) }),
		"connection_time":     ofConnection(func(u *connUse) string { return Seconds(time.Since(u.info.Opened())) }),
		"pipe":                {Get: func(*Exchange) string { return "." }}, // pipelining is not reported

		"hostname":      {Get: constant(hostname)},
		"nginx_version": {Get: constant(version)},
		"pid":           {Get: constant(strconv.Itoa(os.Getpid()))},
		"msec":          {Get: func(*Exchange) string { return Seconds(time.Duration(time.Now().UnixNano())) }},
		"time_local":    {Get: func(x *Exchange) string { return x.Plan.State.LogBuffers.Local(time.Now()) }},
		"time_iso8601":  {Get: func(*Exchange) string { return time.Now().Format("2006-01-02T15:04:05-07:00") }},
	}
	for at, m := range modules {
		if m.Variables != nil {
			maps.Copy(all, m.Variables(Slot(at)))
		}
	}
	return all
}

// when returns a variable that has a text if a condition holds, and is empty otherwise.
func when(text string, holds func(x *Exchange) bool) Variable {
	return func(x *Exchange) string {
		if holds(x) {
			return text
		}
		return ""
	}
}

// NoVariable is a variable that is always empty.
func NoVariable(*Exchange) string { return "" }

// VariableFamily are variables whose names end with that of a header field, argument or cookie.
type VariableFamily struct {
	Prefix string
	Of     func(rest string) Variable
	Needs  needs
}

func variableFamilies() []VariableFamily {
	return []VariableFamily{
		{Prefix: "arg_", Of: func(name string) Variable {
			return func(x *Exchange) string { return message.Argument(x.Args, name) }
		}},
		{Prefix: "cookie_", Of: func(name string) Variable {
			return func(x *Exchange) string { return message.Cookie(x.Request.Header["Cookie"], name) }
		}},
		{Prefix: "http_", Of: requestFieldVariable},
		{Prefix: "sent_http_", Of: func(name string) Variable {
			field := FieldName(name)
			return func(x *Exchange) string { return strings.Join(sentField(x, field), ", ") }
		}},
		{Prefix: "sent_trailer_", Of: func(name string) Variable {
			field := FieldName(name)
			return func(x *Exchange) string { return strings.Join(x.sentTrailer(field), ", ") }
		}},
	}
}

// requestFieldVariable returns $http_NAME.
func requestFieldVariable(name string) Variable {
	if name == "host" {
		return func(x *Exchange) string { return x.HostHeader }
	}
	field := FieldName(name)
	switch field { // which net/http keeps elsewhere, too
	case "Cookie":
		return func(x *Exchange) string { return strings.Join(x.Request.Header["Cookie"], "; ") }
	case "Content-Length":
		return func(x *Exchange) string { return strings.Join(x.ClientRequest().Header[field], ", ") }
	case "Transfer-Encoding":
		return func(x *Exchange) string { return strings.Join(x.ClientRequest().TransferEncoding, ", ") }
	}
	return func(x *Exchange) string { return strings.Join(x.RequestField(field), ", ") }
}

// FieldName returns the header field of a variable's name.
func FieldName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
