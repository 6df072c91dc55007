package core

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// The head of an upstream's response, of one that is stored, or of a file passes as it is, with the
// order and spelling of its fields, unless something has to see it as an http.Header:
//
//	the server     sends no such head, such as net/http's
//	the request    is a subrequest, an error page, or has fields of an earlier response
//	the location   has a filter that reads or replaces fields
//	the response   is a 101, a 426, or an error that an error page replaces
//
// Fields that are added follow the others. The values of $sent_http_ are made when they are
// evaluated.

var _ connection.RawSender = (*Writer)(nil)

// TakesRawHeader implements connection.RawSender.
func (w *Writer) TakesRawHeader(status int) bool {
	x := w.X
	switch {
	case status == http.StatusSwitchingProtocols, status == http.StatusUpgradeRequired,
		x.InterceptsErrors && status >= http.StatusMultipleChoices:
		return false
	case x.Parent != nil, x.ErrorStatus != 0, w.Status != 0, w.WithheldStatus != 0, x.BodyStatus.Load() != 0,
		x.Loc.NeedsHeader:
		return false
	}
	to, ok := w.ResponseWriter.(connection.RawSender)
	return ok && to.TakesRawHeader(status)
}

// WriteRawHeader implements connection.RawSender. If the request's body has meanwhile turned out to
// be invalid, an error page replaces the response. The head is never added to the Header: only modules
// of the front have this writer, and they read what it sends by sentField.
func (w *Writer) WriteRawHeader(status int, head []byte, fields []http1.Field, _ connection.HeaderAdder) {
	if w.X.BodyStatus.Load() != 0 {
		w.Raw = message.Head{}
		w.WriteHeader(status)
		return
	}
	w.Status, w.Raw = status, message.Head{Text: head, Fields: fields}
	if r := w.X.Loc.Rules; r.AddsFields() {
		r.ChangeHeader(w.X, w.Header(), status)
	}
	w.StartLimits()
	w.ResponseWriter.(connection.RawSender).WriteRawHeader(status, head, fields, nil) // see sentField
}

// sentField returns the values of a field that is sent to the client.
func sentField(x *Exchange, name string) []string {
	var values []string
	raw := &x.Response.Raw
	for i := range raw.Fields {
		if f := &raw.Fields[i]; bytes.EqualFold(f.Name.In(raw.Text), []byte(name)) {
			values = append(values, string(f.Value.In(raw.Text)))
		}
	}
	return append(values, x.Response.Header()[name]...)
}

// bytesSent is $bytes_sent: the length of the body, and of the head as HTTP/1 would write it. It is
// exact for tunnels only.
func bytesSent(x *Exchange) string {
	const line, field = len("HTTP/1.1 200 OK\r\n\r\n"), len(": \r\n")
	switch {
	case x.LoggedStatus != 0, x.ResponseStatus() == 0:
		return "0"
	case x.Response.SwitchBytes > 0:
		return strconv.FormatInt(x.Response.SwitchBytes+x.Response.Sent, 10)
	}
	n := x.ResponseBytes() + int64(line)
	for name, values := range x.Response.Header() {
		for _, v := range values {
			n += int64(len(name) + len(v) + field)
		}
	}
	raw := &x.Response.Raw
	for i := range raw.Fields {
		f := &raw.Fields[i]
		n += int64(len(f.Name.In(raw.Text)) + len(f.Value.In(raw.Text)) + field)
	}
	return strconv.FormatInt(n, 10)
}
