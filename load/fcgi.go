package load

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/fcgi"
)

// fcgiProtocol is FastCGI, in the role of the web server.
type fcgiProtocol struct{}

const (
	fcgiPort  = "9000" // default port of php-fpm and of nginx's examples
	requestID = 1      // ID of every request: a connection carries one at a time
)

func (fcgiProtocol) defaultPort(bool) string { return fcgiPort }

func (fcgiProtocol) render(dst []byte, q *request, to address, last bool) []byte {
	var list []byte
	for _, p := range paramsOf(q, to) {
		list = fcgi.AppendPair(list, p.name, p.value)
	}
	b := fcgi.AppendBegin(dst, requestID, fcgi.Begin{Role: fcgi.Responder, Keep: !last})
	b = fcgi.AppendStream(b, fcgi.Params, requestID, list)
	b = fcgi.AppendStreamEnd(b, fcgi.Params, requestID)
	b = fcgi.AppendStream(b, fcgi.Stdin, requestID, []byte(q.body))
	return fcgi.AppendStreamEnd(b, fcgi.Stdin, requestID)
}

const (
	defaultRoot = "/var/www/html" // default DOCUMENT_ROOT
	// remotePort is the REMOTE_PORT of all requests. Real clients differ in it, but all connections
	// send the same bytes.
	remotePort = "49152"
	software   = "tare" // identifies the web server and the client
)

// params are FastCGI parameters with unique names.
type params []field

func (p *params) set(name, value string) {
	for i := range *p {
		if (*p)[i].name == name {
			(*p)[i].value = value
			return
		}
	}
	*p = append(*p, field{name, value})
}

func (p params) get(name string) string {
	for _, f := range p {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// paramsOf returns the parameters of a request. They are those of nginx's file fastcgi_params,
// SCRIPT_FILENAME (which its users add), the header fields, and the Plan's own.
func paramsOf(q *request, to address) params {
	server := serverOf(to)
	contentType, _ := q.get("Content-Type")
	all := params{
		{"QUERY_STRING", q.url.query},
		{"REQUEST_METHOD", q.method},
		{"CONTENT_TYPE", contentType},
		{"CONTENT_LENGTH", q.contentLength()},
		{"SCRIPT_NAME", q.url.path},
		{"REQUEST_URI", q.url.target},
		{"DOCUMENT_URI", q.url.path},
		{"DOCUMENT_ROOT", defaultRoot},
		{"SCRIPT_FILENAME", ""},
		{"SERVER_PROTOCOL", "HTTP/1.1"},
		{"REQUEST_SCHEME", "http"},
		{"GATEWAY_INTERFACE", "CGI/1.1"},
		{"SERVER_SOFTWARE", software},
		{"REMOTE_ADDR", server.Addr().String()},
		{"REMOTE_PORT", remotePort},
		{"SERVER_ADDR", server.Addr().String()},
		{"SERVER_PORT", strconv.Itoa(int(server.Port()))},
		{"SERVER_NAME", q.url.name},
		{"REDIRECT_STATUS", "200"},
		{"HTTP_HOST", q.url.host},
		{"HTTP_USER_AGENT", software},
	}
	for _, f := range q.headerParams() {
		all.set(f.name, f.value)
	}
	for _, f := range q.params {
		all.set(f.name, f.value)
	}
	if all.get("SCRIPT_FILENAME") == "" {
		all.set("SCRIPT_FILENAME", all.get("DOCUMENT_ROOT")+all.get("SCRIPT_NAME"))
	}
	return all
}

// serverOf returns the address of the web server that the generator plays. It is on the
// application's machine or, in front of a unix socket, on port 80 of this one.
func serverOf(to address) netip.AddrPort {
	if to.socket != "" {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 80)
	}
	return to.tcp
}

// headerParams returns the Plan's header fields as parameters. Fields with the same name are joined
// as nginx joins them (RFC 9110, 5.3). Content-Type and Content-Length have parameters of their
// own.
func (q *request) headerParams() params {
	var all params
	for _, f := range q.fields {
		name := "HTTP_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
		value := all.get(name)
		switch {
		case name == "HTTP_CONTENT_TYPE" || name == "HTTP_CONTENT_LENGTH":
			continue
		case value == "":
			value = f.value
		case name == "HTTP_COOKIE":
			value += "; " + f.value
		default:
			value += ", " + f.value
		}
		all.set(name, value)
	}
	return all
}

func (q *request) contentLength() string {
	if given, ok := q.get("Content-Length"); ok {
		return given
	}
	if q.sendsLength() {
		return strconv.Itoa(len(q.body))
	}
	return ""
}
