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

// replacement has tare's counterparts of servers and transports. One that net/http keeps has nil.
type replacement struct {
	mode       string
	mu         sync.Mutex
	servers    map[*http.Server]*tare.Server
	transports map[*http.Transport]*tare.Transport
}

// The program that contains this package knows nothing of it, so only init can begin.
func init() {
	r := &replacement{mode: os.Getenv("TARE_OTHERS_MODE"), servers: make(map[*http.Server]*tare.Server),
		transports: make(map[*http.Transport]*tare.Transport)}
	replaced := &http.Replaced
	if r.mode != "net/http" && r.mode != "transport" {
		replaced.ServerServe, replaced.ServerServeTLS = r.serve, r.serveTLS
		replaced.ServerSetKeepAlivesEnabled = func(s *http.Server, enabled bool) bool {
			t := r.server(s, true)
			if t != nil {
				t.SetKeepAlivesEnabled(enabled)
			}
			return t != nil
		}
	}
	if r.mode == "closing" {
		replaced.ServerShutdown = func(s *http.Server, ctx context.Context) (bool, error) {
			return with(r.server(s, false), func(t *tare.Server) error { return t.Shutdown(ctx) })
		}
		replaced.ServerClose = func(s *http.Server) (bool, error) { return with(r.server(s, false), (*tare.Server).Close) }
	}
	if r.mode == "transport" || r.mode == "both" {
		replaced.TransportRoundTrip, replaced.TransportCloseIdleConnections = r.roundTrip, r.closeIdle
	}
}

// with calls f unless there is no replacement, and reports whether it did.
func with[T any](replacement *T, f func(*T) error) (bool, error) {
	if replacement == nil {
		return false, nil
	}
	return true, f(replacement)
}

// isOwnCall reports whether tare itself calls the replaced method.
func isOwnCall() bool {
	const skipped = 4 // Callers, isOwnCall, its caller, and what replaces the method
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skipped, pcs[:])])
	for {
		frame, more := frames.Next()
		if isMethod := strings.HasPrefix(frame.Function, "net/http.(*"); !isMethod || !more {
			return strings.HasPrefix(frame.Function, "tarehq/tare") // the overlay's name for it
		}
	}
}

// server returns the server that replaces s, or nil if net/http serves. It makes one if create is
// set.
func (r *replacement) server(s *http.Server, create bool) *tare.Server {
	if isOwnCall() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.servers[s]
	if t == nil && create {
		if t = tare.Wrap(s); r.mode == "on-loop" {
			t.Dispatch = tare.OnLoop
		}
		r.servers[s] = t
		mark()
	}
	return t
}

func mark() {
	_ = os.WriteFile(os.Getenv("TARE_OTHERS_MARK"), nil, 0o666) // without it, the run counts as net/http's
}

// serve serves listeners of TLS by ServeTLS, except in the mode default. A listener with settings of
// HTTP/2 comes from ConfigureServer of golang.org/x/net, and accepts nothing.
//
// Servers with a ConnState hook are not served on event loops, and package httptest sets one to wait
// for connections. The modes on-loop and both remove it, and Serve waits in its place.
func (r *replacement) serve(s *http.Server, l net.Listener) (bool, error) {
	if _, ok := l.(interface{ HTTP2Config() http.HTTP2Config }); ok {
		return false, nil
	}
	t := r.server(s, true)
	if t == nil {
		return false, nil
	}
	isLoop := r.mode == "on-loop" || r.mode == "both"
	if hook := runtime.FuncForPC(reflect.ValueOf(s.ConnState).Pointer()); isLoop && hook != nil &&
		strings.HasPrefix(hook.Name(), "net/http/httptest.") {
		s.ConnState = nil
		defer t.Shutdown(context.Background()) //nolint:errcheck // Serve returns its own error
	}
	v := reflect.ValueOf(l)
	if r.mode == "default" || v.Type().String() != "*tls.listener" {
		return true, t.Serve(l)
	}
	s.TLSConfig = (*tls.Config)(unsafe.Pointer(v.Elem().FieldByName("config").Pointer()))
	if s.Protocols == nil && !slices.Contains(s.TLSConfig.NextProtos, "h2") {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
	}
	return true, t.ServeTLS(v.Elem().FieldByName("Listener").Interface().(net.Listener), "", "")
}

func (r *replacement) serveTLS(s *http.Server, l net.Listener, certFile, keyFile string) (bool, error) {
	return with(r.server(s, true), func(t *tare.Server) error { return t.ServeTLS(l, certFile, keyFile) })
}

// transport returns the Transport that replaces t, or nil: tare's has no deprecated fields, and does
// nothing for an http2.Transport of golang.org/x/net, which Go 1.27 attaches to an http.Transport.
func (r *replacement) transport(t *http.Transport) *tare.Transport {
	if isOwnCall() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own, isKnown := r.transports[t]
	hasDialer := t.Dial != nil || t.DialTLS != nil //nolint:staticcheck // programs use these
	attached := reflect.ValueOf(t).Elem().FieldByName("h2Config")
	if isKnown || hasDialer || len(t.TLSNextProto) > 0 || attached.IsValid() && !attached.IsNil() {
		r.transports[t] = own
		return own
	}
	own = new(tare.Transport)
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
	r.transports[t] = own
	mark()
	return own
}

func (r *replacement) roundTrip(t *http.Transport, q *http.Request) (ok bool, resp *http.Response, err error) {
	if q.URL != nil && (q.URL.Scheme == "http" || q.URL.Scheme == "https") {
		ok, err = with(r.transport(t), func(own *tare.Transport) error {
			resp, err = own.RoundTrip(q)
			return err
		})
	}
	return ok, resp, err
}

func (r *replacement) closeIdle(t *http.Transport) bool {
	own := r.transport(t)
	if own != nil {
		own.CloseIdleConnections()
	}
	return own != nil
}
