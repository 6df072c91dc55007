package core

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

type errorPage struct {
	statuses []int
	status   int // 0 keeps the error's; a negative one is the page's
	target   Text
}

func (c *Compiler) errorPages(from []conf.ErrorPage) (all []errorPage) {
	for _, f := range from {
		target := c.Text("error_page", f.Target)
		if target.Empty() {
			c.Failf("error page: empty path")
		}
		for _, s := range f.Statuses {
			if s < 300 || s > 599 || s == nginxstatus.ClientGone {
				c.Failf("error page: invalid status %d: want 300 to 599 except 499", s)
			}
		}
		if f.Status > 0 && !nginxstatus.IsFinal(f.Status) {
			c.Failf("error page: =%d: want a status from 200 to 999", f.Status)
		}
		all = append(all, errorPage{f.Statuses, f.Status, target})
	}
	return all
}

// Fail ends the phase with an error, or with a redirect whose Location is set. The location's error
// pages apply, which may be an internal redirect, unless the connection is to be closed. Nothing of
// a response may have been sent.
func (x *Exchange) Fail(status int) Outcome {
	if nginxstatus.HasNoResponse(status) {
		return x.Abort(status)
	}
	x.ErrorStatus = status
	if status == http.StatusRequestEntityTooLarge || x.BodyStatus.Load() != 0 {
		x.dropBody()
	}
	x.clearHeader()
	if x.Request.ProtoMajor < 2 && nginxstatus.ClosesConnection(status) {
		x.Response.Header()["Connection"] = []string{"close"}
	}
	if !x.errorPageUsed && len(x.Loc.errorPages) > 0 && x.Redirects <= maxRedirects {
		x.errorPageUsed = !x.Loc.Settings.RecursiveErrors
		if p := x.errorPageFor(status); p != nil {
			return p.serve(x)
		}
	}
	return x.sendBuiltinPage()
}

// errorPageFor returns the location's error page for a status, or nil.
func (x *Exchange) errorPageFor(status int) *errorPage {
	for i := range x.Loc.errorPages {
		if p := &x.Loc.errorPages[i]; slices.Contains(p.statuses, status) {
			return p
		}
	}
	return nil
}

// Intercepts reports whether an error page replaces the content's response with a status. As in
// nginx that is the built-in page if an error page has led to the content.
func (x *Exchange) Intercepts(status int) bool {
	return x.InterceptsErrors && status >= http.StatusMultipleChoices && x.errorPageFor(status) != nil
}

// failClosed rejects a request to a closed location. Error pages do not apply: they might lead to
// what is closed.
func (x *Exchange) failClosed() Outcome {
	x.Errorf(errorlog.LevelError, "location is closed: %s", x.Loc.Settings.Closed)
	x.errorPageUsed = true
	return x.Fail(http.StatusServiceUnavailable)
}

// dropBody removes the request's body, which is too long or cannot be read, for what responds now.
func (x *Exchange) dropBody() {
	if x.Request.ContentLength == 0 || x.Received != nil {
		return
	}
	x.dropped = x.Request
	r := *message.Without(x.Request, "Content-Length")
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	x.Request = &r
	x.BodyStatus.Store(0)
}

// clearHeader removes the fields of a response that is not sent.
func (x *Exchange) clearHeader() {
	header := x.Response.Header()
	if len(header) == 0 {
		return
	}
	for _, name := range [...]string{
		"Accept-Ranges", "Age", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
		"Date", "Etag", "Expires", "Last-Modified",
	} {
		// it has the file's length
		if name != "Content-Range" || x.ErrorStatus != http.StatusRequestedRangeNotSatisfiable {
			delete(header, name)
		}
	}
}

func (p *errorPage) serve(x *Exchange) Outcome {
	switch {
	case p.status > 0:
		x.ErrorStatus = p.status
	case p.status < 0:
		x.ErrorStatus = 0
	}
	target := p.target.Eval(x)
	switch {
	case strings.HasPrefix(target, "/"):
		if x.Method != http.MethodHead {
			x.Method = http.MethodGet
		}
		path, args, _ := strings.Cut(target, "?")
		return x.Redirect(path, args)
	case strings.HasPrefix(target, "@"):
		return x.RedirectNamed(target)
	}
	if !nginxstatus.Redirects(x.ErrorStatus) {
		x.ErrorStatus = http.StatusFound
	}
	x.Response.Header()["Location"] = []string{x.EscapeControls(target)}
	return x.sendBuiltinPage()
}

// PageStatus returns the status of a response: that of the error if an error page responds, else
// status. A page with status 200 may also be one that the client has, or a part.
func (x *Exchange) PageStatus(status int) int {
	isSelection := status == http.StatusNotModified || status == http.StatusPartialContent
	if x.ErrorStatus == 0 || x.ErrorStatus == http.StatusOK && isSelection {
		return status
	}
	return nginxstatus.ClientStatus(x.ErrorStatus)
}

// IsConditional reports whether conditions and ranges of the request concern the response. As in
// nginx they do not concern pages with an error's status.
func (x *Exchange) IsConditional() bool { return x.ErrorStatus == 0 || x.ErrorStatus == http.StatusOK }

// cleanPageHeader removes fields that describe an error page as a file, as nginx does. Those of an
// upstream's page pass.
func (x *Exchange) cleanPageHeader(header http.Header, status int) {
	if !x.Loc.isProxied {
		delete(header, "Last-Modified")
		delete(header, "Accept-Ranges")
	}
	if !message.BodyAllowed(status) {
		delete(header, "Content-Type")
	}
}

// sendBuiltinPage responds with the built-in page of the error.
func (x *Exchange) sendBuiltinPage() Outcome {
	status := nginxstatus.ClientStatus(x.ErrorStatus)
	header := x.Response.Header()
	body := nginxstatus.Page(x.ErrorStatus, x.Plan.product, x.Loc.Settings.HideVersion)
	if body == "" {
		header["Content-Length"] = []string{"0"}
		return x.sendBody(status, nil)
	}
	return x.SendPage(status, x.Loc.Types.PageType(status), []byte(body))
}

// StatusVariable is $status, "000" before there is one.
func StatusVariable(x *Exchange) string { return fmt.Sprintf("%03d", x.ResponseStatus()) }

// BodyBytesSent is $body_bytes_sent.
func BodyBytesSent(x *Exchange) string { return strconv.FormatInt(x.ResponseBytes(), 10) }
