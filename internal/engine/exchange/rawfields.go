package exchange

import (
	"bytes"
	"net/http"

	"github.com/tarehq/tare/internal/wire/http1"
)

// HasFields implements connection.ResponseWriter.
func (w *Response) HasFields() bool {
	_, connection := w.fields["Connection"]
	return len(w.fields) > 1 || len(w.fields) == 1 && !connection
}

// WriteRawHeader implements connection.ResponseWriter.
func (w *Response) WriteRawHeader(code int, head []byte, fields []http1.Field) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if !w.mayCommit(code) {
		return
	}
	w.startHead(code)
	c := w.Conn
	for i := range fields {
		if f := &fields[i]; w.applyRawField(f, head) {
			c.Out = c.sink.AppendRawField(c.Out, f.Name.In(head), f.Value.In(head))
		}
	}
	if w.fields != nil {
		w.appendFields(false)
	}
	c.Summary.hasContentType = true
}

// applyRawField is applyField for a field as it was received. Fields that concern the connection
// are dropped: the response sets its own.
func (w *Response) applyRawField(f *http1.Field, head []byte) bool {
	switch f.Known {
	case http1.NameUnknown:
		name := f.Name.In(head)
		return !bytes.EqualFold(name, []byte("Status")) || w.Conn.traits.HasConnFields
	case http1.NameContentLength:
		w.Length, _ = http1.ParseLength(f.Value.In(head)) // the parser accepts no other
		w.Conn.Summary.hasLength = true
		return false
	case http1.NameContentType:
		return w.Status != http.StatusNotModified
	case http1.NameDate:
		w.Conn.Summary.hasDate = true
	case http1.NameConnection, http1.NameTransferEncoding, http1.NameTrailer, http1.NameUpgrade, http1.NameKeepAlive:
		return false
	}
	return true
}
