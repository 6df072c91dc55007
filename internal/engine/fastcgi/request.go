package fastcgi

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// fastcgiExchange is an exchange that came by FastCGI: also one allocation.
type fastcgiExchange struct {
	exchange exchange.Exchange
	extras   extras
}

// variables are the parameters that do not become fields: those of RFC 3875, 4.1, and those that
// web servers add.
type variables struct {
	method, protocol, host                string
	uri, scriptName, pathInfo, query      string
	remoteAddr, remotePort, https, length string
}

// newExchange makes an exchange of a complete list of parameters. Its error calls for a 400
// response and contains nothing that the client sent.
func (f *codec) newExchange(c *exchange.Conn, list []byte) (*exchange.Exchange, error) {
	text := http1.TextOf(list)
	both := &fastcgiExchange{}
	x := &both.exchange
	c.Prepare(x)
	x.Extras = &both.extras
	both.extras.params = text.Of(http1.Span{End: uint32(len(list))})
	both.extras.clonesParams = !text.IsWhole()
	var v variables
	if err := f.sortParams(list, c.Config.Limits.Fields, &text, &v); err != nil {
		return nil, err
	}
	if err := v.apply(x); err != nil {
		return nil, err
	}
	x.SetHeader(f.fields, len(f.fields), &text, canonicalVariable)
	http1.TranslatePragma(x.Request.Header)
	f.initBody(x, v.length != "")
	x.Response.Init(c, x, 1, f.request.Keep)
	if x.Body.Mode != exchange.NoBody {
		x.Response.Flags.Set(exchange.FullDuplex) // web servers read while they send
	}
	return x, nil
}

// sortParams separates variables from fields. It leaves the fields, of which there may be
// maxFields, in f.fields.
func (f *codec) sortParams(list []byte, maxFields int, text *http1.Text, v *variables) error {
	fields, contentType := f.fields[:0], http1.Field{Known: http1.NameContentType}
	for at := 0; at < len(list); {
		p, next, err := fcgi.NextPair(list, at)
		if err != nil {
			return errors.New("malformed parameters")
		}
		at = next
		name := p.Name.In(list)
		switch {
		case len(name) > len("HTTP_") && string(name[:len("HTTP_")]) == "HTTP_":
			field := http1.Field{Name: p.Name, Value: p.Value, Known: http1.LookupVariable(name[len("HTTP_"):])}
			field.Name.Start += uint32(len("HTTP_"))
			switch {
			case field.Known == http1.NameHost:
				v.host = text.Of(p.Value)
				continue
			case !validField(field, list):
				return errors.New("malformed HTTP_ variable")
			}
			fields = append(fields, field)
		case string(name) == "CONTENT_TYPE":
			contentType.Name, contentType.Value = p.Name, p.Value
		default:
			v.set(name, p.Value, text)
		}
		if len(fields) > maxFields {
			return errors.New("too many parameters")
		}
	}
	if contentType.Value.Start < contentType.Value.End { // web servers send HTTP_CONTENT_TYPE, too
		fields = slices.DeleteFunc(fields, func(f http1.Field) bool { return f.Known == http1.NameContentType })
		if fields = append(fields, contentType); !validField(contentType, list) {
			return errors.New("malformed CONTENT_TYPE")
		}
	}
	f.fields = fields
	return nil
}

// validField reports whether a field is valid in a request. A web server has checked that, but the
// peer may not be a web server.
func validField(f http1.Field, list []byte) bool {
	return (f.Known != http1.NameUnknown || http1.ValidToken(f.Name.In(list))) && http1.ValidValue(f.Value.In(list))
}

func canonicalVariable(name string) string {
	return textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

func (v *variables) set(name []byte, value http1.Span, text *http1.Text) {
	var to *string
	switch string(name) {
	case "REQUEST_METHOD":
		to = &v.method
	case "SERVER_PROTOCOL":
		to = &v.protocol
	case "REQUEST_URI":
		to = &v.uri
	case "SCRIPT_NAME":
		to = &v.scriptName
	case "PATH_INFO":
		to = &v.pathInfo
	case "QUERY_STRING":
		to = &v.query
	case "REMOTE_ADDR":
		to = &v.remoteAddr
	case "REMOTE_PORT":
		to = &v.remotePort
	case "HTTPS":
		to = &v.https
	case "CONTENT_LENGTH":
		to = &v.length
	default:
		return
	}
	*to = text.Of(value)
}

// apply sets the fields of x's Request.
func (v *variables) apply(x *exchange.Exchange) error {
	r := &x.Request
	if r.Method = v.method; !http1.ValidToken(v.method) {
		return errors.New("REQUEST_METHOD missing or malformed")
	}
	if v.protocol != r.Proto { // r.Proto is HTTP/1.1
		var ok bool
		r.ProtoMajor, r.ProtoMinor, ok = http.ParseHTTPVersion(v.protocol)
		if v.protocol == "INCLUDED" { // set for a part of another document (RFC 3875, 4.1.16); as in net/http/cgi
			r.ProtoMajor, ok = 1, true
		}
		if !ok {
			return errors.New("SERVER_PROTOCOL missing or malformed")
		}
		r.Proto = v.protocol
	}
	if v.length != "" {
		n, err := strconv.ParseUint(v.length, 10, 63)
		if err != nil {
			return errors.New("malformed CONTENT_LENGTH")
		}
		r.ContentLength = int64(n)
	}
	if r.Host = v.host; v.host != "" && !http1.ValidHost([]byte(v.host)) {
		return errors.New("malformed HTTP_HOST")
	}
	if r.TLS = nil; v.https == "on" || v.https == "ON" || v.https == "1" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true} // as in net/http/cgi
	}
	if _, err := strconv.ParseUint(v.remotePort, 10, 16); err != nil {
		v.remotePort = "0"
	}
	r.RemoteAddr = net.JoinHostPort(v.remoteAddr, v.remotePort)
	return v.setTarget(x)
}

// setTarget sets RequestURI and URL, and Host if the target names one. Not all web servers send
// REQUEST_URI. The variables that all send have been unescaped.
func (v *variables) setTarget(x *exchange.Exchange) error {
	r := &x.Request
	if v.uri != "" {
		if r.RequestURI = v.uri; !http1.ValidTarget(v.uri) {
			return exchange.ErrTarget
		}
		return x.SetURL()
	}
	x.URL = url.URL{Path: v.scriptName + v.pathInfo, RawQuery: v.query}
	if x.URL.Path == "" {
		x.URL.Path = "/"
	}
	r.URL, r.RequestURI = &x.URL, x.URL.RequestURI()
	if !http1.ValidTarget(r.RequestURI) {
		return exchange.ErrTarget
	}
	return nil
}
