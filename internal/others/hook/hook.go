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
	onLoops bool // servers have HooksOnLoops, and TLS listeners are served by ServeTLS
	onLoop  bool // handlers run on event loops

	mu         sync.Mutex
	servers    map[*http.Server]*tare.Server
	transports map[*http.Transport]*tare.Transport
}

// The program that contains this package knows nothing of it, so only init can begin.
func init() {
	r := &replacement{servers: make(map[*http.Server]*tare.Server),
		transports: make(map[*http.Transport]*tare.Transport)}
	switch os.Getenv("TARE_OTHERS_MODE") {
	case "default":
		r.replaceServers()
	case "loops":
		r.onLoops = true
		r.replaceServers()
	case "on-loop":
		r.onLoops, r.onLoop = true, true
		r.replaceServers()
	case "closing":
		r.replaceServers()
		http.Replaced.ServerShutdown, http.Replaced.ServerClose = r.shutdown, r.close
	case "transport":
		r.replaceTransports()
	case "both":
		r.onLoops = true
		r.replaceServers()
		r.replaceTransports()
	}
}

func (r *replacement) replaceServers() {
	http.Replaced.ServerServe, http.Replaced.ServerServeTLS = r.serve, r.serveTLS
	http.Replaced.ServerSetKeepAlivesEnabled = r.setKeepAlivesEnabled
}

func (r *replacement) replaceTransports() {
	http.Replaced.TransportRoundTrip, http.Replaced.TransportCloseIdleConnections = r.roundTrip, r.closeIdle
}

// isOwnCall reports whether tare itself calls the replaced method.
func isOwnCall() bool {
	const skipped = 3 // Callers, isOwnCall, and what replaces the method
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skipped, pcs[:])])
	for {
		frame, more := frames.Next()
		if isMethod := strings.HasPrefix(frame.Function, "net/http.(*"); !isMethod || !more {
			return strings.HasPrefix(frame.Function, "tarehq/tare") // the overlay's name for it
		}
	}
}

func mark() {
	_ = os.WriteFile(os.Getenv("TARE_OTHERS_MARK"), nil, 0o666) // without it, the run counts as net/http's
}

// server returns the server that replaces s. It is nil if there is none and create is not set.
func (r *replacement) server(s *http.Server, create bool) *tare.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.servers[s]
	if t == nil && create {
		t = tare.Wrap(s)
		if t.HooksOnLoops = r.onLoops; r.onLoop {
			t.Dispatch = tare.OnLoop
		}
		r.servers[s] = t
		mark()
	}
	return t
}

func (r *replacement) serve(s *http.Server, l net.Listener) (bool, error) {
	if isOwnCall() {
		return false, nil
	}
	v := reflect.ValueOf(l)
	if !r.onLoops || v.Type().String() != "*tls.listener" {
		return true, r.server(s, true).Serve(l)
	}
	s.TLSConfig = (*tls.Config)(unsafe.Pointer(v.Elem().FieldByName("config").Pointer()))
	if s.Protocols == nil && !slices.Contains(s.TLSConfig.NextProtos, "h2") {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
	}
	return true, r.server(s, true).ServeTLS(v.Elem().FieldByName("Listener").Interface().(net.Listener), "", "")
}

func (r *replacement) serveTLS(s *http.Server, l net.Listener, certFile, keyFile string) (bool, error) {
	if isOwnCall() {
		return false, nil
	}
	return true, r.server(s, true).ServeTLS(l, certFile, keyFile)
}

func (r *replacement) setKeepAlivesEnabled(s *http.Server, enabled bool) bool {
	if isOwnCall() {
		return false
	}
	r.server(s, true).SetKeepAlivesEnabled(enabled)
	return true
}

func (r *replacement) shutdown(s *http.Server, ctx context.Context) (bool, error) {
	if t := r.server(s, false); t != nil && !isOwnCall() {
		return true, t.Shutdown(ctx)
	}
	return false, nil
}

func (r *replacement) close(s *http.Server) (bool, error) {
	if t := r.server(s, false); t != nil && !isOwnCall() {
		return true, t.Close()
	}
	return false, nil
}

// transport returns the Transport that replaces t, or nil: tare's has no deprecated fields.
func (r *replacement) transport(t *http.Transport) *tare.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.transports[t]; ok {
		return own
	}
	r.transports[t] = nil
	if t.Dial != nil || t.DialTLS != nil || len(t.TLSNextProto) > 0 { //nolint:staticcheck // programs use them
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
	r.transports[t] = own
	mark()
	return own
}

func (r *replacement) roundTrip(t *http.Transport, q *http.Request) (bool, *http.Response, error) {
	if q.URL == nil || q.URL.Scheme != "http" && q.URL.Scheme != "https" || isOwnCall() {
		return false, nil, nil
	}
	own := r.transport(t)
	if own == nil {
		return false, nil, nil
	}
	resp, err := own.RoundTrip(q)
	return true, resp, err
}

func (r *replacement) closeIdle(t *http.Transport) bool {
	if isOwnCall() {
		return false
	}
	own := r.transport(t)
	if own != nil {
		own.CloseIdleConnections()
	}
	return own != nil
}
