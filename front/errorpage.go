package front

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Statuses of nginx's own, beside 444.
const (
	statusHeaderTooLarge = 494
	statusCertError      = 495
	statusNoCert         = 496
	statusToHTTPS        = 497
	statusClientGone     = 499
)

// errorPage is an ErrorPage, compiled.
type errorPage struct {
	statuses []int
	status   int // 0 keeps the error's, below zero is the page's
	target   text
}

func (c *compiler) errorPages(from []ErrorPage) ([]errorPage, error) {
	var all []errorPage
	for _, f := range from {
		target, err := c.text(f.Target)
		if err == nil && target.empty() {
			err = fmt.Errorf("it has no target")
		}
		for _, s := range f.Statuses {
			if s < 300 || s > 599 || s == statusClientGone {
				err = fmt.Errorf("the status %d has no page, want 300 to 599 and not 499", s)
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

// fail ends with an error, or a redirect that has its Location, as the location's error pages say: it may be an internal redirect.
// Nothing of an answer may have been written.
func (x *exchange) fail(status int) outcome {
	if status == statusClosed {
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

// closed fails where nothing is served. No error page answers: it may lead to what would be served otherwise.
func (x *exchange) failClosed() outcome {
	x.errorf(levelError, "nothing is served here: %s", x.loc.settings.Closed)
	x.errorPageUsed = true
	return x.fail(http.StatusServiceUnavailable)
}

// dropBody has whatever answers see no body of the request, because that is too long or cannot be read.
func (x *exchange) dropBody() {
	if x.r.ContentLength == 0 || x.hasReceived() {
		return
	}
	r := x.r.WithContext(x.r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	r.Header = r.Header.Clone()
	delete(r.Header, "Content-Length")
	x.r = r
	x.bodyStatus.Store(0)
}

// failing is the content of what cannot answer.
type fixedStatus int

func (f fixedStatus) serve(x *exchange) outcome { return x.fail(int(f)) }

// forget takes back what was said about an answer that is not given.
func (x *exchange) clearHeader() {
	header := x.w.Header()
	if len(header) == 0 {
		return
	}
	for _, name := range [...]string{
		"Accept-Ranges", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Etag", "Expires", "Last-Modified",
	} {
		if name != "Content-Range" || x.errorStatus != http.StatusRequestedRangeNotSatisfiable { // of which it says the file's length
			delete(header, name)
		}
	}
}

// answer has the page answer.
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
		return x.redirect(splitArgs(target))
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

// statusOf is the status of an answer whose content says that it is status: an error page's is the error's.
func (x *exchange) pageStatus(status int) int {
	if x.errorStatus == 0 {
		return status
	}
	return clientStatus(x.errorStatus)
}

// ofPage removes from a page's header what is the page's and not the error's, as nginx does.
func cleanPageHeader(header http.Header, status int) {
	if status != http.StatusOK {
		delete(header, "Last-Modified")
		delete(header, "Accept-Ranges")
	}
	if !bodyAllowed(status) {
		delete(header, "Content-Type")
	}
}

// shown is a status as clients see it.
func clientStatus(status int) int {
	switch status {
	case statusHeaderTooLarge, statusCertError, statusNoCert, statusToHTTPS:
		return http.StatusBadRequest
	}
	return status
}

// page answers with the page that is built in.
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
		header["Content-Type"] = []string{x.loc.files.types.pageType(status)}
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(status)
	if x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(body))
	}
}

// closes reports whether an error ends its connection, because what follows on it may not be what it seems.
func closesConnection(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusInternalServerError,
		http.StatusNotImplemented, statusHeaderTooLarge, statusCertError, statusNoCert, statusToHTTPS:
		return true
	}
	return false
}

// pageOf is the page of a status, "" for one that has no name.
func builtinPage(status int, product string, hideVersion bool) string {
	title := statusTitle(status)
	if title == "" {
		return ""
	}
	detail := ""
	switch status {
	case statusHeaderTooLarge:
		detail = "Request Header Or Cookie Too Large"
	case statusCertError:
		detail = "The SSL certificate error"
	case statusNoCert:
		detail = "No required SSL certificate was sent"
	case statusToHTTPS:
		detail = "The plain HTTP request was sent to HTTPS port"
	}
	name := product
	if hideVersion {
		name, _, _ = strings.Cut(product, "/")
	}
	const line = "\r\n"
	page := "<html>" + line + "<head><title>" + title + "</title></head>" + line + "<body>" + line + "<center><h1>" + title + "</h1></center>" + line
	if detail != "" {
		page = strings.Replace(page, "<title>"+title, "<title>400 "+detail, 1)
		page += "<center>" + detail + "</center>" + line
	}
	return page + "<hr><center>" + name + "</center>" + line + "</body>" + line + "</html>" + line
}

// titleOf is a status with the name that nginx has for it, "" if it has none.
func statusTitle(status int) string {
	name := ""
	switch status = clientStatus(status); status {
	case http.StatusUnauthorized:
		name = "Authorization Required"
	case http.StatusMethodNotAllowed:
		name = "Not Allowed"
	case http.StatusRequestTimeout:
		name = "Request Time-out"
	case http.StatusRequestURITooLong:
		name = "Request-URI Too Large"
	case http.StatusServiceUnavailable:
		name = "Service Temporarily Unavailable"
	case http.StatusGatewayTimeout:
		name = "Gateway Time-out"
	case 301, 302, 303, 307, 308, 400, 402, 403, 404, 406, 409, 410, 411, 412, 413, 415, 416, 421, 429, 500, 501, 502, 505, 507:
		name = http.StatusText(status)
	default:
		return ""
	}
	return strconv.Itoa(status) + " " + name
}

// statusSent is $status, "000" as long as there is none.
func statusVariable(x *exchange) string { return fmt.Sprintf("%03d", x.responseStatus()) }

func bodyBytesSent(x *exchange) string { return strconv.FormatInt(x.responseBytes(), 10) }

// bytesSent is about the number of bytes of the answer: those of its body, and of its head as HTTP/1 would write it. Those of a
// tunnel are exact.
func bytesSent(x *exchange) string {
	const line, field = len("HTTP/1.1 200 OK\r\n\r\n"), len(": \r\n")
	switch {
	case x.loggedStatus != 0:
		return "0"
	case x.out != nil && x.out.switchBytes > 0:
		return strconv.FormatInt(x.out.switchBytes+x.out.sent, 10)
	}
	n := x.responseBytes() + int64(line)
	for name, values := range x.w.Header() {
		for _, v := range values {
			n += int64(len(name) + len(v) + field)
		}
	}
	return strconv.FormatInt(n, 10)
}
