package front

import (
	"net/http"
	"strconv"
	"strings"
)

// Statuses of nginx's own, besides 444.
const (
	statusHeaderTooLarge = 494
	statusCertError      = 495
	statusNoCert         = 496
	statusToHTTPS        = 497
	statusClientGone     = 499
)

// clientStatus returns the status that the client sees.
func clientStatus(status int) int {
	switch status {
	case statusHeaderTooLarge, statusCertError, statusNoCert, statusToHTTPS:
		return http.StatusBadRequest
	}
	return status
}

// closesConnection reports whether an error ends its connection, because what follows on it may not
// be a request.
func closesConnection(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusInternalServerError,
		http.StatusNotImplemented, statusHeaderTooLarge, statusCertError, statusNoCert, statusToHTTPS:
		return true
	}
	return false
}

// builtinPage returns the built-in page of a status, "" for a status without a title.
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
	page := "<html>" + line + "<head><title>" + title + "</title></head>" + line + "<body>" + line + "<center><h1>" +
		title + "</h1></center>" + line
	if detail != "" {
		page = strings.Replace(page, "<title>"+title, "<title>400 "+detail, 1)
		page += "<center>" + detail + "</center>" + line
	}
	return page + "<hr><center>" + name + "</center>" + line + "</body>" + line + "</html>" + line
}

// statusTitle returns a status with nginx's name for it, or "".
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
	case 301, 302, 303, 307, 308, 400, 402, 403, 404, 406, 409, 410, 411, 412, 413, 415, 416, 421, 429, 500, 501, 502,
		505, 507:
		name = http.StatusText(status)
	default:
		return ""
	}
	return strconv.Itoa(status) + " " + name
}

// statusClosed is nginx's 444: the connection is closed without a response.
const statusClosed = 444

// hasNoResponse reports whether nginx sends no response for a status.
func hasNoResponse(status int) bool {
	return status == statusClosed || status == statusClientGone || status == http.StatusRequestTimeout
}

// isFinal reports whether status is that of a final response.
func isFinal(status int) bool { return status >= http.StatusOK && status <= 999 }

// redirects reports whether a status has a Location.
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}
