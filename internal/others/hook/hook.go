//go:build tare_overlay

// Package hook makes the servers and transports of package net/http those of tare, in programs that
// know nothing of it. It belongs to an overlay of the standard library. TARE_OTHERS_MODE selects
// what is replaced; TARE_OTHERS_MARK names a file that receives a line for each first use.
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

// tarePath begins the names of tare's functions, as the overlay names its packages.
const tarePath = "tarehq/tare"

// mode is what is replaced.
type mode struct {
	servers      bool
	hooksOnLoops bool // and TLS listeners are served by ServeTLS
	onLoop       bool // handlers run on event loops
	endsWrapped  bool // Shutdown and Close are called on the tare.Server
	transports   bool
}

func modeOf(name string) mode {
	switch name {
	case "default":
		return mode{servers: true}
	case "loops":
		return mode{servers: true, hooksOnLoops: true}
	case "on-loop":
		return mode{servers: true, hooksOnLoops: true, onLoop: true}
	case "closing":
		return mode{servers: true, endsWrapped: true}
	case "transport":
		return mode{transports: true}
	case "both":
		return mode{servers: true, hooksOnLoops: true, transports: true}
	}
	return mode{}
}

// replacement has tare's counterparts of servers and transports. One that net/http keeps has nil.
type replacement struct {
	mode mode

	mu         sync.Mutex
	servers    map[*http.Server]*tare.Server
	transports map[*http.Transport]*tare.Transport
}

// Tests start long after this package is initialized. There is no other place in a program of which
// nothing is known.
func init() {
	r := &replacement{mode: modeOf(os.Getenv("TARE_OTHERS_MODE")), servers: make(map[*http.Server]*tare.Server),
		transports: make(map[*http.Transport]*tare.Transport)}
	if r.mode.servers {
		http.Replaced.ServerServe, http.Replaced.ServerServeTLS = r.serve, r.serveTLS
		http.Replaced.ServerSetKeepAlivesEnabled = r.setKeepAlivesEnabled
	}
	if r.mode.endsWrapped {
		http.Replaced.ServerShutdown, http.Replaced.ServerClose = r.shutdown, r.close
	}
	if r.mode.transports {
		http.Replaced.TransportRoundTrip, http.Replaced.TransportCloseIdleConnections = r.roundTrip, r.closeIdle
	}
}

// isOwnCall reports whether tare itself calls the replaced method.
func isOwnCall() bool {
	const frames = 3 // Callers, isOwnCall, the replacing method, the replaced one; then its caller
	var pcs [4]uintptr
	iterator := runtime.CallersFrames(pcs[:runtime.Callers(frames, pcs[:])])
	for {
		frame, more := iterator.Next()
		if !strings.HasPrefix(frame.Function, "net/http.(*") {
			return strings.HasPrefix(frame.Function, tarePath)
		}
		if !more {
			return false
		}
	}
}

func mark(what string) {
	f, err := os.OpenFile(os.Getenv("TARE_OTHERS_MARK"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err == nil {
		_, _ = f.WriteString(what + "\n")
		_ = f.Close()
	}
}

// server returns the server that replaces s, which is new if create is set, or nil.
func (r *replacement) server(s *http.Server, create bool) *tare.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.servers[s]
	if t == nil && create {
		t = tare.Wrap(s)
		if t.HooksOnLoops = r.mode.hooksOnLoops; r.mode.onLoop {
			t.Dispatch = tare.OnLoop
		}
		r.servers[s] = t
		mark("server")
	}
	return t
}

func (r *replacement) serve(s *http.Server, l net.Listener) (bool, error) {
	if isOwnCall() {
		return false, nil
	}
	inner, config := tlsListener(l)
	if !r.mode.hooksOnLoops || config == nil {
		return true, r.server(s, true).Serve(l)
	}
	if s.TLSConfig = config; s.Protocols == nil && !slices.Contains(config.NextProtos, "h2") {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
	}
	return true, r.server(s, true).ServeTLS(inner, "", "")
}

// tlsListener returns what a listener of tls.NewListener was made of, or nil. Fields of crypto/tls
// that are not exported have no other access.
func tlsListener(l net.Listener) (net.Listener, *tls.Config) {
	v := reflect.ValueOf(l)
	if v.Kind() != reflect.Pointer || v.Type().String() != "*tls.listener" {
		return nil, nil
	}
	config := v.Elem().FieldByName("config")
	return v.Elem().FieldByName("Listener").Interface().(net.Listener),
		(*tls.Config)(unsafe.Pointer(config.Pointer()))
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
	if isOwnCall() {
		return false, nil
	}
	t := r.server(s, false)
	if t == nil {
		return false, nil
	}
	return true, t.Shutdown(ctx)
}

func (r *replacement) close(s *http.Server) (bool, error) {
	if isOwnCall() {
		return false, nil
	}
	t := r.server(s, false)
	if t == nil {
		return false, nil
	}
	return true, t.Close()
}

// transport returns the Transport that replaces t, or nil: tare's has no deprecated fields.
func (r *replacement) transport(t *http.Transport) *tare.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.transports[t]; ok {
		return own
	}
	var own *tare.Transport
	if t.Dial == nil && t.DialTLS == nil && len(t.TLSNextProto) == 0 { //nolint:staticcheck // programs use them
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
		mark("transport")
	}
	r.transports[t] = own
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
	if own == nil {
		return false
	}
	own.CloseIdleConnections()
	return true
}
