package front

import (
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// knownVariable is a row of the table of nginx's variables. Variables that nginx has and that are
// not here are rows of grammar.Unavailable.
type knownVariable struct {
	get variable
	// set is how Set sets the variable; nil means that it cannot.
	set func(x *exchange, value string)
	// appendTo replaces get in lines of logs, and does not allocate; nil uses get.
	appendTo func(b []byte, x *exchange, escape escapeFunc) []byte
	needs    needs
	// isCached: the variable is evaluated at its first use, and then kept for the request.
	isCached bool
	// isReplaceable: a variable of the Config may have the same name, and replaces it.
	isReplaceable bool
	// isSetWhenEmpty: lines of logs have nothing for an empty value; otherwise they have a dash.
	isSetWhenEmpty bool
	// isSet reports whether the variable is set if its value is empty; nil never does.
	isSet func(x *exchange) bool
}

// needs are what an exchange must collect for a variable.
type needs uint8

const (
	needsStartTime   needs = 1 << iota // when the request began
	needsConnection                    // the connection, and the number of its requests
	needsCounts                        // numbers of all requests and connections
	needsAttempts                      // attempts of upstream requests
	needsAnyResponse                   // an upstream's response: the variable changes with it
)

// allVariables returns the variables with fixed names, those of modules included.
func allVariables(product string, modules []module) map[string]knownVariable {
	all := make(map[string]knownVariable)
	for _, rows := range []map[string]knownVariable{
		requestVariables(), clientVariables(), processVariables(product),
	} {
		maps.Copy(all, rows)
	}
	for at, m := range modules {
		if m.variables != nil {
			maps.Copy(all, m.variables(slot(at)))
		}
	}
	return all
}

func requestVariables() map[string]knownVariable {
	setArgs := func(x *exchange, value string) { x.args, x.uriChanged = value, true }
	return map[string]knownVariable{
		"host":            {get: func(x *exchange) string { return x.hostOrServerName() }, isSetWhenEmpty: true},
		"uri":             {get: func(x *exchange) string { return x.path }, isSetWhenEmpty: true},
		"document_uri":    {get: func(x *exchange) string { return x.path }, isSetWhenEmpty: true},
		"request_uri":     {get: requestURI},
		"args":            {get: func(x *exchange) string { return x.args }, set: setArgs},
		"query_string":    {get: func(x *exchange) string { return x.args }},
		"is_args":         {get: isArgs, isSetWhenEmpty: true},
		"scheme":          {get: scheme},
		"https":           {get: https, isSetWhenEmpty: true},
		"http2":           {get: http2},
		"http3":           {get: http3},
		"server_protocol": {get: func(x *exchange) string { return x.r.Proto }},

		"request_method":     {get: requestMethod},
		"request":            {get: requestLine, appendTo: appendRequestLine},
		"request_length":     {get: requestLength},
		"request_id":         {get: requestID},
		"request_time":       {get: requestTime, needs: needsStartTime},
		"request_completion": {get: requestCompletion, isSetWhenEmpty: true},
		"content_length":     {get: contentLengthVariable},
		"content_type":       {get: func(x *exchange) string { return x.r.Header.Get("Content-Type") }},

		"status":          {get: statusVariable, appendTo: appendStatus},
		"body_bytes_sent": {get: bodyBytesSent, appendTo: appendBodyBytes},
		"limit_rate":      {get: limitRate, set: setLimitRate},
	}
}

// clientVariables are about the client and its connection.
func clientVariables() map[string]knownVariable {
	return map[string]knownVariable{
		"server_name": {get: func(x *exchange) string { return x.host.name }, isSetWhenEmpty: true},
		"server_port": {get: serverPort},
		"server_addr": {get: serverAddr},

		"remote_addr":        {get: remoteAddr},
		"remote_port":        {get: remotePort},
		"binary_remote_addr": {get: binaryRemoteAddr},
		"realip_remote_addr": {get: realipRemoteAddr},
		"realip_remote_port": {get: realipRemotePort},

		"proxy_protocol_addr": {get: func(x *exchange) string { return proxyAddr(x.proxySource()) }},
		"proxy_protocol_port": {get: func(x *exchange) string { return portString(x.proxySource()) }},
		"proxy_protocol_server_addr": {
			get: func(x *exchange) string { return proxyAddr(x.proxyDestination()) },
		},
		"proxy_protocol_server_port": {
			get: func(x *exchange) string { return portString(x.proxyDestination()) },
		},

		"connection":          {get: connectionNumber},
		"connection_requests": {get: connectionRequests, needs: needsConnection},
		"connection_time":     {get: connectionTime, needs: needsConnection},
		"pipe":                {get: func(*exchange) string { return "." }}, // pipelining is not reported
	}
}

func processVariables(product string) map[string]knownVariable {
	constant := func(s string) variable { return func(*exchange) string { return s } }
	hostname, _ := os.Hostname() // without one it is empty
	_, version, _ := strings.Cut(product, "/")
	return map[string]knownVariable{
		"hostname":      {get: constant(hostname)},
		"nginx_version": {get: constant(version)},
		"pid":           {get: constant(strconv.Itoa(os.Getpid()))},
		"msec":          {get: func(*exchange) string { return seconds(time.Duration(time.Now().UnixNano())) }},
		"time_local":    {get: func(*exchange) string { return time.Now().Format(clfTime) }, appendTo: appendTime},
		"time_iso8601":  {get: func(*exchange) string { return time.Now().Format("2006-01-02T15:04:05-07:00") }},
	}
}

// noVariable is a variable that is always empty.
func noVariable(*exchange) string { return "" }

// variableFamily are variables whose names end with that of a header field, argument or cookie.
type variableFamily struct {
	prefix string
	of     func(rest string) knownVariable
}

func variableFamilies() []variableFamily {
	return []variableFamily{
		{"arg_", func(name string) knownVariable {
			return knownVariable{get: func(x *exchange) string { return argument(x.args, name) }}
		}},
		{"cookie_", func(name string) knownVariable {
			return knownVariable{get: func(x *exchange) string { return cookie(x.r.Header["Cookie"], name) }}
		}},
		{"http_", func(name string) knownVariable { return knownVariable{get: requestFieldVariable(name)} }},
		{"sent_trailer_", func(name string) knownVariable {
			field := fieldName(name)
			return knownVariable{get: func(x *exchange) string { return joinValues(x.sentTrailer(field)) }}
		}},
	}
}

// requestFieldVariable returns $http_NAME.
func requestFieldVariable(name string) variable {
	if name == "host" {
		return func(x *exchange) string { return x.hostHeader }
	}
	field := fieldName(name)
	switch field { // which net/http keeps elsewhere, too
	case "Cookie":
		return func(x *exchange) string { return strings.Join(x.r.Header["Cookie"], "; ") }
	case "Content-Length":
		return func(x *exchange) string { return joinValues(x.clientRequest().Header[field]) }
	case "Transfer-Encoding":
		return func(x *exchange) string { return strings.Join(x.clientRequest().TransferEncoding, ", ") }
	}
	return func(x *exchange) string { return joinValues(x.requestField(field)) }
}

// fieldName returns the header field of a variable's name.
func fieldName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
