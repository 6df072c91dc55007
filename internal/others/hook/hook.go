//go:build tare_overlay

// Package hook makes the servers and transports of package net/http those of tare, in programs that
// know nothing of it. It belongs to an overlay of the standard library. TARE_OTHERS_MODE selects
// what is replaced. TARE_OTHERS_MARK names a file that exists once tare was used.
package hook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/tarehq/tare"
)

// mode, and what replaces servers and transports: nil for one that net/http keeps. Programs that
// contain this package do not know it, so that it has state of its own, and init begins.
var (
	mode = os.Getenv("TARE_OTHERS_MODE")
	mu   sync.Mutex
	owns = make(map[any]any)
)

func init() {
	if mode != "net/http" {
		http.Replace = replace
	}
}

func replace(receiver any, method string, args ...any) any {
	if isOwnCall() || slices.ContainsFunc(args, isForeign) {
		return nil
	}
	mu.Lock()
	defer mu.Unlock()
	own, isKnown := owns[receiver]
	if isEnd := method == "Shutdown" || method == "Close"; isEnd && (mode != "closing" || !isKnown) {
		return nil
	}
	if isKnown {
		return own
	}
	switch t := receiver.(type) {
	case *http.Server:
		if mode != "transport" {
			s := &server{tare.Wrap(t)}
			if mode == "on-loop" {
				s.Dispatch = tare.OnLoop
			}
			own = s
		}
	case *http.Transport:
		if mode == "transport" || mode == "both" {
			own = newTransport(t)
		}
	}
	if owns[receiver] = own; own != nil {
		_ = os.WriteFile(os.Getenv("TARE_OTHERS_MARK"), nil, 0o666) // without it, the run counts as net/http's
	}
	return own
}

// isOwnCall reports whether tare itself calls the replaced method.
func isOwnCall() bool {
	const skipped = 3 // Callers, isOwnCall, replace
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skipped, pcs[:])])
	for {
		frame, more := frames.Next()
		if isMethod := strings.HasPrefix(frame.Function, "net/http.(*"); !isMethod || !more {
			return strings.HasPrefix(frame.Function, "tarehq/tare") // the overlay's name for it
		}
	}
}

// isForeign reports whether net/http keeps a call with an argument: a request whose scheme is not
// HTTP's, or a listener with settings of HTTP/2, which comes from ConfigureServer of golang.org/x/net
// and accepts nothing.
func isForeign(arg any) bool {
	switch arg := arg.(type) {
	case *http.Request:
		return arg.URL == nil || arg.URL.Scheme != "http" && arg.URL.Scheme != "https"
	case interface{ HTTP2Config() http.HTTP2Config }:
		return true
	}
	return false
}

// server is a tare.Server that serves listeners of TLS by ServeTLS, except in the mode default.
//
// Servers with a ConnState hook are not served on event loops, and package httptest sets one to wait
// for connections. The modes on-loop and both remove it, and Serve waits in its place.
type server struct{ *tare.Server }

func (t *server) Serve(l net.Listener) error {
	s, isLoop := t.Server.Server, mode == "on-loop" || mode == "both"
	if hook := runtime.FuncForPC(reflect.ValueOf(s.ConnState).Pointer()); isLoop && hook != nil &&
		strings.HasPrefix(hook.Name(), "net/http/httptest.") {
		s.ConnState = nil
		defer t.Shutdown(context.Background()) //nolint:errcheck // Serve returns its own error
	}
	v := reflect.ValueOf(l)
	if mode == "default" || v.Type().String() != "*tls.listener" {
		return t.Server.Serve(l)
	}
	s.TLSConfig = (*tls.Config)(unsafe.Pointer(v.Elem().FieldByName("config").Pointer()))
	if s.Protocols == nil && !slices.Contains(s.TLSConfig.NextProtos, "h2") {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
	}
	return t.ServeTLS(v.Elem().FieldByName("Listener").Interface().(net.Listener), "", "")
}

// newTransport returns a tare.Transport with the fields of t, or nil. It has no deprecated fields,
// and does nothing for an http2.Transport of golang.org/x/net, which Go 1.27 attaches to t.
func newTransport(t *http.Transport) any {
	hasDialer := t.Dial != nil || t.DialTLS != nil //nolint:staticcheck // programs use these
	attached := reflect.ValueOf(t).Elem().FieldByName("h2Config")
	if hasDialer || len(t.TLSNextProto) > 0 || attached.IsValid() && !attached.IsNil() {
		return nil
	}
	own := new(tare.Transport)
	from, to := reflect.ValueOf(t).Elem(), reflect.ValueOf(own).Elem()
	for i := range from.NumField() {
		if f := to.FieldByName(from.Type().Field(i).Name); f.IsValid() && f.CanSet() {
			f.Set(from.Field(i))
		}
	}
	if t.TLSNextProto != nil && own.Protocols == nil { // empty: it turns HTTP/2 off
		own.Protocols = new(http.Protocols)
		own.Protocols.SetHTTP1(true)
	}
	return own
}
