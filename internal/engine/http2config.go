package engine

import (
	"net/http"
	"reflect"
	"unsafe"
)

// http2Config returns the settings of HTTP/2. Where http.Server.HTTP2 sets nothing, the
// http2.Server passed to ConfigureServer (golang.org/x/net) applies, as in net/http.
func http2Config(set *http.Server) *http.HTTP2Config {
	var c http.HTTP2Config
	if set.HTTP2 != nil {
		c = *set.HTTP2
	}
	external, ok := externalHTTP2Config(set).(interface{ HTTP2Config() http.HTTP2Config })
	if !ok {
		return &c
	}
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(external.HTTP2Config())
	for i := range to.NumField() {
		if f := to.Field(i); f.CanSet() && f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return &c
}

// externalHTTP2Config returns what ConfigureServer has left in a field that Go 1.27 has and does
// not export, or nil. Without it the limits that a program sets would have no effect, silently.
func externalHTTP2Config(set *http.Server) any {
	f := reflect.ValueOf(set).Elem().FieldByName("h2Config")
	if !f.IsValid() || f.Kind() != reflect.Interface {
		return nil
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Interface()
}
