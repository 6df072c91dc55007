package front

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/uri"
)

// errorPage is an ErrorPage, compiled.
type errorPage struct {
	statuses []int
	status   int // 0 keeps the error's; a negative one is the page's
	target   text
}

func (c *compiler) errorPages(from []conf.ErrorPage) ([]errorPage, error) {
	var all []errorPage
	for _, f := range from {
		target, err := c.text(f.Target)
		if err == nil && target.empty() {
			err = fmt.Errorf("missing target")
		}
		for _, s := range f.Statuses {
			if s < 300 || s > 599 || s == statusClientGone {
				err = fmt.Errorf("invalid status %d: want 300 to 599 except 499", s)
			}
		}
		if f.Status > 0 && !isFinal(f.Status) {
			err = fmt.Errorf("=%d: want a status from 200 to 999", f.Status)
		}
		if err == nil && strings.HasPrefix(target.literal, "@") && target.constant() {
			err = c.checkNamedTarget(&target)
		}
		if err != nil {
			return nil, fmt.Errorf("error page: %w", err)
		}
		all = append(all, errorPage{f.Statuses, f.Status, target})
	}
	return all, nil
}

// fail ends the phase with an error, or with a redirect whose Location is set. The location's error
// pages apply, which may be an internal redirect, unless the connection is to be closed. Nothing of
// a response may have been sent.
func (x *exchange) fail(status int) outcome {
	if hasNoResponse(status) {
		return x.abort(status)
	}
	x.errorStatus = status
	if status == http.StatusRequestEntityTooLarge || x.bodyStatus.Load() != 0 {
		x.dropBody()
	}
	x.clearHeader()
	if !x.errorPageUsed && len(x.loc.errorPages) > 0 && x.redirects <= maxRedirects {
		x.errorPageUsed = !x.loc.settings.RecursiveErrors
		for i := range x.loc.errorPages {
			if p := &x.loc.errorPages[i]; slices.Contains(p.statuses, status) {
				return p.serve(x)
			}
		}
	}
	x.sendBuiltinPage()
	return responded
}

// failClosed rejects a request to a closed location. Error pages do not apply: they might lead to
// what is closed.
func (x *exchange) failClosed() outcome {
	x.errorf(levelError, "location is closed: %s", x.loc.settings.Closed)
	x.errorPageUsed = true
	return x.fail(http.StatusServiceUnavailable)
}

// dropBody removes the request's body, which is too long or cannot be read, for what responds now.
func (x *exchange) dropBody() {
	if x.r.ContentLength == 0 || x.hasReceived() {
		return
	}
	x.originalHead = x.headLength()
	r := x.r.WithContext(x.r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	r.Header = r.Header.Clone()
	delete(r.Header, "Content-Length")
	x.r = r
	x.bodyStatus.Store(0)
}

// fixedStatus is content that always fails with a status.
type fixedStatus int

func (f fixedStatus) serve(x *exchange) outcome { return x.fail(int(f)) }

// clearHeader removes the fields of a response that is not sent.
func (x *exchange) clearHeader() {
	header := x.w.Header()
	if len(header) == 0 {
		return
	}
	for _, name := range [...]string{
		"Accept-Ranges", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
		"Etag", "Expires", "Last-Modified",
	} {
		// it has the file's length
		if name != "Content-Range" || x.errorStatus != http.StatusRequestedRangeNotSatisfiable {
			delete(header, name)
		}
	}
}

// serve responds with the page.
func (p *errorPage) serve(x *exchange) outcome {
	switch {
	case p.status > 0:
		x.errorStatus = p.status
	case p.status < 0:
		x.errorStatus = 0
	}
	target := p.target.eval(x)
	switch {
	case strings.HasPrefix(target, "/"):
		if x.method != http.MethodHead {
			x.method = http.MethodGet
		}
		return x.redirect(uri.Split(target))
	case strings.HasPrefix(target, "@"):
		return x.redirectNamed(target)
	}
	if !redirects(x.errorStatus) {
		x.errorStatus = http.StatusFound
	}
	x.w.Header()["Location"] = []string{x.escapeControls(target)}
	x.sendBuiltinPage()
	return responded
}

// pageStatus returns the status of a response: that of the error if an error page responds, else
// status.
func (x *exchange) pageStatus(status int) int {
	if x.errorStatus == 0 {
		return status
	}
	return clientStatus(x.errorStatus)
}

// cleanPageHeader removes fields that describe an error page as a file, as nginx does.
func cleanPageHeader(header http.Header, status int) {
	if status != http.StatusOK {
		delete(header, "Last-Modified")
		delete(header, "Accept-Ranges")
	}
	if !bodyAllowed(status) {
		delete(header, "Content-Type")
	}
}

// sendBuiltinPage responds with the built-in page of the error.
func (x *exchange) sendBuiltinPage() {
	status := clientStatus(x.errorStatus)
	header := x.w.Header()
	if x.r.ProtoMajor < 2 && closesConnection(x.errorStatus) {
		header["Connection"] = []string{"close"}
	}
	body := builtinPage(x.errorStatus, x.plan.product, x.loc.settings.HideVersion)
	if body == "" {
		header["Content-Length"] = []string{"0"}
	} else {
		header["Content-Type"] = []string{x.loc.types.pageType(status)}
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(status)
	if x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(body))
	}
}

// statusVariable is $status, "000" before there is one.
func statusVariable(x *exchange) string { return fmt.Sprintf("%03d", x.responseStatus()) }

func bodyBytesSent(x *exchange) string { return strconv.FormatInt(x.responseBytes(), 10) }

// checkNamedTarget records a named location that must exist, if to names one.
func (c *compiler) checkNamedTarget(to *text) error {
	if !to.constant() {
		return nil
	}
	switch {
	case strings.HasPrefix(to.literal, "@"):
		c.namedTargets = append(c.namedTargets, to.literal)
	case to.literal == "":
		return errors.New("empty path")
	}
	return nil
}

// explain implements content.
func (f fixedStatus) explain(x *exchange, _ *explanation) outcome { return f.serve(x) }
