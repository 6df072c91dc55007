// Package nginxstatus has the statuses that only nginx knows, and its built-in pages.
package nginxstatus

import (
	"net/http"
	"strconv"
	"strings"
)

// Statuses of nginx's own, besides 444.
const (
	HeaderTooLarge = 494
	CertError      = 495
	NoCert         = 496
	ToHTTPS        = 497
	ClientGone     = 499
)

// ClientStatus returns the status that the client sees.
func ClientStatus(status int) int {
	switch status {
	case HeaderTooLarge, CertError, NoCert, ToHTTPS:
		return http.StatusBadRequest
	}
	return status
}

// ClosesConnection reports whether an error ends its connection, because what follows on it may not
// be a request.
func ClosesConnection(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusInternalServerError,
		http.StatusNotImplemented, HeaderTooLarge, CertError, NoCert, ToHTTPS:
		return true
	}
	return false
}

// Page returns the built-in page of a status, "" for a status without a title.
func Page(status int, product string, hideVersion bool) string {
	title := statusTitle(status)
	if title == "" {
		return ""
	}
	detail := ""
	switch status {
	case HeaderTooLarge:
		detail = "Request Header Or Cookie Too Large"
	case CertError:
		detail = "The SSL certificate error"
	case NoCert:
		detail = "No required SSL certificate was sent"
	case ToHTTPS:
		detail = "The plain HTTP request was sent to HTTPS port"
	}
	name := product
	if hideVersion {
		name, _, _ = strings.Cut(product, "/")
	}
	heading := title
	if detail != "" {
		title, detail = "400 "+detail, "<center>"+detail+"</center>\r\n"
	}
	return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + heading +
		"</h1></center>\r\n" + detail + "<hr><center>" + name + "</center>\r\n</body>\r\n</html>\r\n"
}

// statusTitle returns a status with nginx's name for it, or "".
func statusTitle(status int) string {
	name := ""
	switch status = ClientStatus(status); status {
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
	case 301, 302, 303, 307, 308, 400, 402, 403, 404, 406, 409, 410, 411, 412, 413, 415, 416, 421, 429, 500, 501, 502,
		505, 507:
		name = http.StatusText(status)
	default:
		return ""
	}
	return strconv.Itoa(status) + " " + name
}

// Closed is nginx's 444: the connection is closed without a response.
const Closed = 444

// HasNoResponse reports whether nginx sends no response for a status.
func HasNoResponse(status int) bool {
	return status == Closed || status == ClientGone || status == http.StatusRequestTimeout
}

// IsFinal reports whether status is that of a final response.
func IsFinal(status int) bool { return status >= http.StatusOK && status <= 999 }

// Redirects reports whether a status has a Location.
func Redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}
