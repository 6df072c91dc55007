package front

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Variables are resolved when a Config is compiled: first those that it defines, then nginx's.

// variable returns a variable by its name in lower case. The error says that it is unknown, or why
// it is not available.
func (c *compiler) variable(name string) (variable, error) {
	if m := c.maps[name]; m != nil {
		return c.mapVariable(m)
	}
	if v := c.memoizedVariable(name); v != nil {
		return v, nil
	}
	if slot, ok := c.slots[name]; ok {
		return func(x *exchange) string { return x.get(slot) }, nil
	}
	if v := c.knownVariable(name); v != nil {
		return v, nil
	}
	why := conf.Unavailable(name)
	switch {
	case why == "":
		return nil, fmt.Errorf("unknown variable $%s", name)
	case c.config.BlankUnavailable:
		return func(*exchange) string { return "" }, nil
	}
	return nil, fmt.Errorf("variable $%s is not available: %s", name, why)
}

// memoizedVariable returns a variable that is evaluated at its first use and then kept for the
// request, unless a Set has set it; or nil.
func (c *compiler) memoizedVariable(name string) variable {
	var find variable
	switch name {
	case "invalid_referer":
		find = invalidReferer
	case "secure_link":
		find = secureLinkVariable(c.slotOf("secure_link_expires"))
	case "secure_link_expires":
		find = func(*exchange) string { return "" }
	default:
		return nil
	}
	slot := c.slotOf(name)
	return func(x *exchange) string {
		if !x.has(slot) {
			x.set(slot, find(x))
		}
		return x.get(slot)
	}
}

// isReadOnly reports whether a variable has a slot but cannot be set.
func isReadOnly(name string) bool { return name == "secure_link" || name == "secure_link_expires" }

// slotOf returns the slot of a variable, and makes one if needed.
func (c *compiler) slotOf(name string) int {
	slot, ok := c.slots[name]
	if !ok {
		slot = len(c.slots)
		c.slots[name] = slot
	}
	return slot
}

// knownVariable returns one of nginx's variables, or nil.
func (c *compiler) knownVariable(name string) variable {
	if v := c.core[name]; v != nil {
		c.plan.needsStartTime = c.plan.needsStartTime || name == "request_time"
		c.plan.readsBodies = c.plan.readsBodies || name == "request_body"
		c.plan.countsRequests = c.plan.countsRequests || name == "connection_requests" || name == "connection_time"
		if strings.HasPrefix(name, "connections_") {
			c.plan.counts = &c.state.counts
		}
		return v
	}
	for _, find := range [...]func(string) (variable, bool){
		tlsVariable, proxyProtocolVariable, cacheVariable, proxyVariable, prefixedVariable,
	} {
		if v, ok := find(name); ok {
			c.plan.needsAttempts = c.plan.needsAttempts || attemptVariable(name) != nil
			c.usesResponse = c.usesResponse || usesUpstreamResponse(name)
			return v
		}
	}
	return nil
}

// assignable returns how Set sets one of nginx's variables, or nil.
func assignable(name string) func(x *exchange, value string) {
	switch name {
	case "args", "query_string":
		return func(x *exchange, value string) { x.args, x.uriChanged = value, true }
	case "limit_rate":
		return func(x *exchange, value string) { x.limitRate = value }
	}
	return nil
}

// get returns the value of a slot, "" if it is not set.
func (x *exchange) get(slot int) string {
	if x.vars == nil {
		return ""
	}
	return x.vars[slot].text
}

// has reports whether a slot is set, to an empty value or another.
func (x *exchange) has(slot int) bool { return x.vars != nil && x.vars[slot].isSet }

// set sets a slot.
func (x *exchange) set(slot int, text string) {
	if x.vars == nil {
		x.vars = make([]value, x.plan.slots)
	}
	x.vars[slot] = value{text, true}
}

// declare makes slots for the variables that the Config defines.
func (c *compiler) declare() error {
	for i := range c.config.Maps {
		m := &c.config.Maps[i]
		name := strings.ToLower(m.Name)
		if c.maps[name] != nil {
			return fmt.Errorf("duplicate map $%s", name)
		}
		if err := c.slot(name); err != nil {
			return fmt.Errorf("map: %w", err)
		}
		c.maps[name], c.assigned[name] = &mapping{from: m, slot: c.slots[name]}, true
		for _, k := range m.Cases {
			if source, fold, ok := casePattern(m, k.From); ok {
				if err := c.declareGroups(source, fold); err != nil {
					return fmt.Errorf("map $%s: %w", name, err)
				}
			}
		}
	}
	for i := range c.config.Hosts {
		h := &c.config.Hosts[i]
		for _, name := range h.Names {
			if source, ok := strings.CutPrefix(name, "~"); ok {
				if err := c.declareGroups(source, true); err != nil {
					return withPos(h.Pos, err)
				}
			}
		}
	}
	for p := range c.config.Places() {
		if err := c.declarePlace(p); err != nil {
			return withPos(p.Pos, err)
		}
	}
	return nil
}

// declarePlace makes slots for the variables that a place defines.
func (c *compiler) declarePlace(p conf.Place) error {
	if err := c.declareSteps(p); err != nil {
		return err
	}
	if l := p.Location; l != nil {
		if l.Match == conf.Regex || l.Match == conf.FoldRegex {
			if err := c.declareGroups(l.Path, l.Match == conf.FoldRegex); err != nil {
				return err
			}
		}
		if err := c.declareProxy(l.Proxy); err != nil {
			return err
		}
	}
	return c.declareAuth(p.Settings.AuthRequest)
}

// declareAuth makes slots for the variables of an AuthRequest. They are not set until the
// subrequest has ended.
func (c *compiler) declareAuth(a *conf.AuthRequest) error {
	if a == nil {
		return nil
	}
	for _, s := range a.Set {
		if err := c.declareSet(s); err != nil {
			return err
		}
	}
	return nil
}

// declareSet makes a slot for the variable of a Set, unless it is one of nginx's.
func (c *compiler) declareSet(s conf.Set) error {
	name := strings.ToLower(s.Name)
	c.setsLimitRate = c.setsLimitRate || name == "limit_rate"
	if assignable(name) != nil {
		return nil
	}
	return c.slot(name)
}

func (c *compiler) declareProxy(p *conf.Proxy) error {
	if p == nil {
		return nil
	}
	for _, r := range slices.Concat(p.Redirects, p.CookieDomains, p.CookiePaths) {
		if source, fold, ok := cutPattern(r.From); ok {
			if err := c.declareGroups(source, fold); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *compiler) declareSteps(p conf.Place) error {
	for s := range p.AllSteps() {
		var err error
		switch s := s.(type) {
		case conf.Set:
			if err = c.declareSet(s); err == nil && assignable(strings.ToLower(s.Name)) == nil {
				c.assigned[strings.ToLower(s.Name)] = true
			}
		case conf.Rewrite:
			err = c.declareGroups(s.Pattern, false)
		case conf.If:
			if op := strings.TrimPrefix(s.Op, "!"); op == "~" || op == "~*" {
				err = c.declareGroups(string(s.Right), op == "~*")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// declareGroups makes slots for the named groups of a regular expression.
func (c *compiler) declareGroups(source string, fold bool) error {
	p, err := c.parsePattern(source, fold)
	if err != nil {
		return err
	}
	for _, name := range p.re.Names() {
		if name == "" {
			continue
		}
		if err := c.slot(strings.ToLower(name)); err != nil {
			return err
		}
	}
	return nil
}

// slot makes a slot for a variable, if it has none.
func (c *compiler) slot(name string) error {
	if name == "" || strings.IndexFunc(name, func(r rune) bool { return r > 0x7f || !isName(byte(r)) }) >= 0 {
		return fmt.Errorf("invalid variable name %q", name)
	}
	if c.core[name] != nil || isReadOnly(name) {
		return fmt.Errorf("variable $%s cannot be set", name)
	}
	c.slotOf(name)
	return nil
}

// coreVariables returns nginx's variables with fixed names.
func coreVariables(product string) map[string]variable {
	constant := func(s string) variable { return func(*exchange) string { return s } }
	hostname, _ := os.Hostname() // without one it is empty
	_, version, _ := strings.Cut(product, "/")
	return map[string]variable{
		"host":            func(x *exchange) string { return x.hostOrServerName() },
		"uri":             func(x *exchange) string { return x.path },
		"document_uri":    func(x *exchange) string { return x.path },
		"request_uri":     requestURI,
		"args":            func(x *exchange) string { return x.args },
		"query_string":    func(x *exchange) string { return x.args },
		"is_args":         isArgs,
		"scheme":          scheme,
		"https":           https,
		"http2":           http2,
		"server_name":     func(x *exchange) string { return x.host.name },
		"server_port":     serverPort,
		"server_addr":     serverAddr,
		"server_protocol": func(x *exchange) string { return x.r.Proto },

		"remote_addr":        remoteAddr,
		"remote_port":        remotePort,
		"binary_remote_addr": binaryRemoteAddr,
		"realip_remote_addr": realipRemoteAddr,
		"realip_remote_port": realipRemotePort,
		"limit_req_status":   func(x *exchange) string { return x.requestLimit.String() },
		"limit_conn_status":  func(x *exchange) string { return x.connLimit.String() },
		"remote_user":        remoteUser,
		"request_method":     requestMethod,
		"request":            requestLine,
		"request_length":     requestLength,
		"request_id":         requestID,
		"request_time":       requestTime,
		"request_completion": requestCompletion,
		"content_length":     func(x *exchange) string { return contentLength(x.clientRequest()) },
		"request_body":       requestBodyValue,
		"content_type":       func(x *exchange) string { return x.r.Header.Get("Content-Type") },

		"document_root":    documentRoot,
		"realpath_root":    realpathRoot,
		"request_filename": requestFilename,

		"hostname":      constant(hostname),
		"nginx_version": constant(version),
		"pid":           constant(strconv.Itoa(os.Getpid())),
		"msec":          func(*exchange) string { return seconds(time.Duration(time.Now().UnixNano())) },
		"time_local":    func(*exchange) string { return time.Now().Format("02/Jan/2006:15:04:05 -0700") },
		"time_iso8601":  func(*exchange) string { return time.Now().Format("2006-01-02T15:04:05-07:00") },

		"connection_requests": connectionRequests,
		"connection_time":     connectionTime,
		"connections_active":  connectionsActive,
		"connections_reading": constant("0"),
		"connections_writing": connectionsWriting,
		"connections_waiting": connectionsWaiting,

		"ssl_early_data": constant(""), // crypto/tls does not support early data
		"http3":          constant(""),
		"pipe":           constant("."), // pipelining is not reported

		"gzip_ratio":      gzipRatio,
		"status":          statusVariable,
		"body_bytes_sent": bodyBytesSent,
		"bytes_sent":      bytesSent,
		"limit_rate":      limitRate,
	}
}

// prefixedVariable returns variables whose names include that of a header field, argument or
// cookie.
func prefixedVariable(name string) (variable, bool) {
	of, rest, ok := strings.Cut(name, "_")
	if !ok || rest == "" {
		return nil, false
	}
	switch of {
	case "arg":
		return func(x *exchange) string { return argument(x.args, rest) }, true
	case "cookie":
		return func(x *exchange) string { return cookie(x.r.Header["Cookie"], rest) }, true
	case "http":
		if rest == "host" {
			return func(x *exchange) string { return x.hostHeader }, true
		}
		field := fieldName(rest)
		switch field { // which net/http keeps elsewhere, too
		case "Cookie":
			return func(x *exchange) string { return strings.Join(x.r.Header["Cookie"], "; ") }, true
		case "Content-Length":
			return func(x *exchange) string { return contentLength(x.clientRequest()) }, true
		case "Transfer-Encoding":
			return func(x *exchange) string { return strings.Join(x.clientRequest().TransferEncoding, ", ") }, true
		}
		return func(x *exchange) string { return joinValues(x.requestField(field)) }, true
	case "sent":
		if field, ok := strings.CutPrefix(rest, "http_"); ok && field != "" {
			field = fieldName(field)
			return func(x *exchange) string { return joinValues(x.sentField(field)) }, true
		}
	}
	return nil, false
}

// fieldName returns the header field of a variable's name.
func fieldName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
