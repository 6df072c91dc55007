package core

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

func (c *Compiler) returnStep(s conf.Return) action {
	if !nginxstatus.IsFinal(s.Status) {
		c.Failf("return %d: want a status from 200 to 999", s.Status)
	}
	body := c.Text("return", s.Text)
	switch {
	case nginxstatus.Redirects(s.Status):
		return func(x *Exchange) (Outcome, bool) {
			return x.SendRedirect(s.Status, x.evalWithStatus(s.Status, &body)), true
		}
	case s.Status >= http.StatusBadRequest && body.Empty(), s.Status == nginxstatus.Closed:
		return func(x *Exchange) (Outcome, bool) { return x.Fail(s.Status), true }
	}
	return func(x *Exchange) (Outcome, bool) {
		return x.sendText(s.Status, x.evalWithStatus(s.Status, &body)), true
	}
}

// evalWithStatus evaluates a text of a response. Its $status is the response's, or that of the
// error.
func (x *Exchange) evalWithStatus(status int, t *Text) string {
	before := x.ErrorStatus
	if before == 0 {
		x.ErrorStatus = status
	}
	s := t.Eval(x)
	x.ErrorStatus = before
	return s
}

// Abort ends a request without a response: the connection is closed, or the stream reset. It does not
// return. A server that has not noticed the client's departure would else send an empty response.
func (x *Exchange) Abort(status int) Outcome {
	x.EndWithoutResponse(status)
	panic(http.ErrAbortHandler)
}

// sendText responds with a text. Its type is by the extension of the path, unless X-Accel-Redirect
// has led here with another one.
func (x *Exchange) sendText(status int, body string) Outcome {
	if x.RegexTimedOut {
		return x.Fail(http.StatusInternalServerError)
	}
	if x.Loc.Settings.Closed != "" {
		return x.failClosed()
	}
	header := x.Response.Header()
	if status == http.StatusNoContent || status == http.StatusNotModified {
		delete(header, "Content-Type")
		return x.sendBody(status, []byte(body))
	}
	contentType := message.FirstValue(header["Content-Type"])
	if contentType == "" {
		contentType = x.Loc.Types.TypeOf(x.Path)
	}
	return x.SendPage(status, contentType, []byte(body))
}

// SendPage responds with a body of a type.
func (x *Exchange) SendPage(status int, contentType string, body []byte) Outcome {
	header := x.Response.Header()
	header["Content-Type"], header["Content-Length"] = []string{contentType}, []string{strconv.Itoa(len(body))}
	return x.sendBody(status, body)
}

// sendBody sends a head that is complete, and a body that HEAD does not receive.
func (x *Exchange) sendBody(status int, body []byte) Outcome {
	x.Response.WriteHeader(x.PageStatus(status))
	if len(body) > 0 && x.Method != http.MethodHead {
		_, _ = x.Response.Write(body) // an error ends the connection
	}
	return Responded
}

// SendRedirect redirects the client, or lets an error page respond.
func (x *Exchange) SendRedirect(status int, location string) Outcome {
	if x.RegexTimedOut {
		return x.Fail(http.StatusInternalServerError)
	}
	if x.Loc.Settings.Closed != "" {
		return x.failClosed()
	}
	x.Response.Header()["Location"] = []string{x.AbsoluteLocation(location)}
	return x.Fail(status)
}

// AbsoluteLocation returns a Location as it is sent. A path gets scheme and host of the request if
// the location requires it. Control characters, which $uri may have, are encoded: they would end
// the field.
func (x *Exchange) AbsoluteLocation(location string) string {
	s := x.Loc.Settings
	if location == "" || location[0] != '/' || s.RelativeRedirects {
		return x.EscapeControls(location)
	}
	host := x.hostName()
	if s.PrimaryName && x.Host.name != "" {
		host = x.Host.name
	}
	if host == "" {
		if host = serverAddr(x); strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
	}
	if port := serverPort(x); !s.HidePort && port != "" && port != DefaultPort(x.Request.TLS != nil) {
		host += ":" + port
	}
	return Scheme(x) + "://" + host + x.EscapeControls(location)
}

// DefaultPort returns the port of https, or that of http.
func DefaultPort(usesTLS bool) string {
	if usesTLS {
		return "443"
	}
	return "80"
}

// EscapeControls encodes control characters of a URL, and logs them: usually a client attempts to
// end the field.
func (x *Exchange) EscapeControls(s string) string {
	isControl := func(c rune) bool { return c < ' ' || c == 0x7f }
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	x.Errorf(errorlog.LevelError, "control characters encoded in redirect to %q", errorlog.Truncate(s))
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
