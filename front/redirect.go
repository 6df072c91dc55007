package front

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// returnStep compiles a Return.
func (c *compiler) returnStep(s conf.Return) (action, error) {
	if !isFinal(s.Status) {
		return nil, fmt.Errorf("return %d: want a status from 200 to 999", s.Status)
	}
	body, err := c.text(s.Text)
	if err != nil {
		return nil, fmt.Errorf("return: %w", err)
	}
	switch {
	case redirects(s.Status):
		return func(x *exchange) (outcome, bool) {
			return x.sendRedirect(s.Status, x.evalWithStatus(s.Status, &body)), true
		}, nil
	case s.Status >= http.StatusBadRequest && body.empty(), s.Status == statusClosed:
		return func(x *exchange) (outcome, bool) { return x.fail(s.Status), true }, nil
	}
	return func(x *exchange) (outcome, bool) {
		return x.sendText(s.Status, x.evalWithStatus(s.Status, &body)), true
	}, nil
}

// evalWithStatus evaluates a text of a response. Its $status is the response's, or that of the
// error.
func (x *exchange) evalWithStatus(status int, t *text) string {
	before := x.errorStatus
	if before == 0 {
		x.errorStatus = status
	}
	s := t.eval(x)
	x.errorStatus = before
	return s
}

// abort ends a request without a response: the connection is closed, or the stream reset.
func (x *exchange) abort(status int) outcome {
	x.endWithoutResponse(status)
	panic(http.ErrAbortHandler)
}

// sendText responds with a text. Its type is by the extension of the path, unless X-Accel-Redirect
// has led here with another one.
func (x *exchange) sendText(status int, body string) outcome {
	if x.regexTimedOut {
		return x.fail(http.StatusInternalServerError)
	}
	if x.loc.settings.Closed != "" {
		return x.failClosed()
	}
	header := x.w.Header()
	if status != http.StatusNoContent && status != http.StatusNotModified {
		if header["Content-Type"] == nil {
			header["Content-Type"] = []string{x.loc.types.typeOf(x.path)}
		}
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	} else {
		delete(header, "Content-Type")
	}
	x.w.WriteHeader(x.pageStatus(status))
	if body != "" && x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(body))
	}
	return responded
}

// sendRedirect redirects the client, or lets an error page respond.
func (x *exchange) sendRedirect(status int, location string) outcome {
	if x.regexTimedOut {
		return x.fail(http.StatusInternalServerError)
	}
	if x.loc.settings.Closed != "" {
		return x.failClosed()
	}
	x.w.Header()["Location"] = []string{x.absoluteLocation(location)}
	return x.fail(status)
}

// absoluteLocation returns a Location as it is sent. A path gets scheme and host of the request if
// the location requires it. Control characters, which $uri may have, are encoded: they would end
// the field.
func (x *exchange) absoluteLocation(location string) string {
	s := x.loc.settings
	if location == "" || location[0] != '/' || s.RelativeRedirects {
		return x.escapeControls(location)
	}
	host := x.hostName()
	if s.PrimaryName && x.host.name != "" {
		host = x.host.name
	}
	if host == "" {
		if host = serverAddr(x); strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
	}
	var b strings.Builder
	b.WriteString(scheme(x))
	b.WriteString("://")
	b.WriteString(host)
	if port := serverPort(x); !s.HidePort && port != "" && port != defaultPort(x) {
		b.WriteByte(':')
		b.WriteString(port)
	}
	b.WriteString(x.escapeControls(location))
	return b.String()
}

// defaultPort is the default port of the request's scheme.
func defaultPort(x *exchange) string {
	if x.r.TLS != nil {
		return "443"
	}
	return "80"
}

// escapeControls encodes control characters of a URL, and logs them: usually a client attempts to
// end the field.
func (x *exchange) escapeControls(s string) string {
	isControl := func(c rune) bool { return c < ' ' || c == 0x7f }
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	x.errorf(levelError, "control characters encoded in redirect to %q", truncateLogged(s))
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if isControl(rune(s[i])) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
