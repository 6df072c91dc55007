package engine

import (
	"net/http"
	"reflect"
	"time"
)

// Defaults of http.Server's zero fields, and limits for which it has no field.
const (
	// defaultHeadTimeout limits how long a client may take to send a head: from its first byte
	// on, or for the first request from the start of the connection. It applies if neither
	// ReadHeaderTimeout nor ReadTimeout is set. net/http has no limit then.
	defaultHeadTimeout = 30 * time.Second

	// headSlop is how many bytes beyond MaxHeaderBytes net/http reads before it rejects a head.
	headSlop = 4096

	// defaultMaxFields limits the field lines of a head, as http.DefaultMaxHeaderValueCount of Go
	// 1.27 does. A limit in bytes is not enough: an empty field costs the client four bytes and the
	// server a map entry.
	defaultMaxFields = 500

	// maxParams limits the fields of a FastCGI request, which the web server has accepted.
	maxParams = 1000
)

// setting returns a field of the settings that not all supported versions of Go have.
func setting[T any](set *http.Server, name string) (v T) {
	if f := reflect.ValueOf(set).Elem().FieldByName(name); f.IsValid() {
		v, _ = f.Interface().(T)
	}
	return v
}
