package tare_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	getClose = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
)

type key string

// field shows what a field of http.Server does.
type field struct {
	kinds []string
	want  string
	// show runs a server with or without the field set, and returns what a client observes.
	show func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string
}

// textHandler returns a handler that always sends the same response.
func textHandler(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

// fields are the exported fields of http.Server, with newFields. Each has the same effect in tare
// and in net/http, and an effect that differs from that of its absence.
var fields = map[string]field{
	"Addr": {[]string{plain}, "address in use",
		func(t *testing.T, _ string, maker func(*http.Server) server, set bool) string {
			taken := listen(t)
			defer taken.Close()
			s := &http.Server{Addr: "256.0.0.1:1"}
			if set {
				s.Addr = taken.Addr().String()
			}
			if err := maker(s).ListenAndServe(); strings.Contains(err.Error(), "listen tcp "+taken.Addr().String()) {
				return "address in use"
			}
			return "another"
		}},
	"Handler": {[]string{plain, h1, h2}, "200 OK x",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{}
			if set {
				s.Handler = textHandler("x")
			}
			return start(t, kind, maker, s).get("/")
		}},
	"DisableGeneralOptionsHandler": {[]string{plain, h1}, "true",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			site := start(t, kind, maker, &http.Server{DisableGeneralOptionsHandler: set, Handler: textHandler("x")})
			return fmt.Sprint(strings.HasSuffix(site.sendText(
				"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), "x"))
		}},
	"TLSConfig": {[]string{h1, h2}, "failed",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0)}
			if set {
				s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
			}
			site := start(t, kind, maker, s)
			site.client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
			return site.get("/")
		}},
	"ReadTimeout": {[]string{plain, h1, h2}, "true",
		longer("true",
			func(t *testing.T, kind string, maker func(*http.Server) server, set bool, short time.Duration) string {
				failed, posted := make(chan bool, 1), make(chan bool)
				s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					failed <- err != nil
				})}
				if set {
					s.ReadTimeout = short
				}
				site := start(t, kind, maker, s)
				body, more := io.Pipe()
				go func() {
					defer close(posted)
					if resp, err := site.client.Post(site.url, "text/plain", body); err == nil {
						resp.Body.Close()
					}
				}()
				go io.WriteString(more, "x")
				time.AfterFunc(20*short, func() { more.Close() })
				select {
				case <-posted: // the timeout may have passed before there was a request
				case was := <-failed:
					return fmt.Sprint(was)
				}
				select {
				case was := <-failed:
					return fmt.Sprint(was)
				default:
					return "not served"
				}
			})},
	"ReadHeaderTimeout": {[]string{plain, h1}, "closed",
		longer("closed",
			func(t *testing.T, kind string, maker func(*http.Server) server, set bool, short time.Duration) string {
				s := &http.Server{Handler: textHandler("x")}
				if set {
					s.ReadHeaderTimeout = short
				}
				c := start(t, kind, maker, s).dial()
				io.WriteString(c, "GET ")
				return closed(c, 10*short)
			})},
	"WriteTimeout": {[]string{plain, h1, h2}, "failed",
		longer("failed",
			func(t *testing.T, kind string, maker func(*http.Server) server, set bool, short time.Duration) string {
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(3 * short)
					io.WriteString(w, "x")
				})}
				if set {
					s.WriteTimeout = short
				}
				return start(t, kind, maker, s).get("/")
			})},
	"IdleTimeout": {[]string{plain, h1, h2}, "2", longer("2",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool, short time.Duration) string {
			s := &http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })}
			if set {
				s.IdleTimeout = short
			}
			site := start(t, kind, maker, s)
			from := map[string]bool{site.get("/"): true}
			time.Sleep(6 * short)
			from[site.get("/")] = true
			return fmt.Sprint(len(from))
		})},
	"MaxHeaderBytes": {[]string{plain, h1, h2}, "431",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{Handler: textHandler("x")}
			if set {
				s.MaxHeaderBytes = 1
			}
			site := start(t, kind, maker, s)
			req, _ := http.NewRequest(http.MethodGet, site.url, nil)
			req.Header.Set("X", strings.Repeat("x", 10<<10))
			resp, err := site.client.Do(req)
			if err != nil { // the client observes the limit that an HTTP/2 server announces
				return "431"
			}
			resp.Body.Close()
			return fmt.Sprint(resp.StatusCode)
		}},
	"TLSNextProto": {[]string{h1, h2}, "foo /x true true; h2: failed", showTLSNextProto},
	"ConnState": {[]string{plain, h1, h2}, "new active idle closed",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			var mu sync.Mutex
			var seen []string
			s := &http.Server{Handler: textHandler("x")}
			if set {
				s.ConnState = func(c net.Conn, state http.ConnState) {
					mu.Lock()
					defer mu.Unlock()
					if tcp := c.RemoteAddr().Network() == "tcp"; len(seen) == 0 ||
						seen[len(seen)-1] != state.String() ||
						!tcp {
						seen = append(seen, state.String())
					}
				}
			}
			site := start(t, kind, maker, s)
			await := func(last string) string {
				all := ""
				testkit.WaitFor(t, last, func() bool {
					mu.Lock()
					defer mu.Unlock()
					all = strings.Join(seen, " ")
					return !set || strings.HasSuffix(all, last)
				})
				return all
			}
			site.get("/")
			await("idle")
			site.client.CloseIdleConnections()
			all := await("closed")
			// HTTP/2 is idle after its settings, too.
			return strings.Replace(all, "active idle active", "active", 1)
		}},
	"ErrorLog": {[]string{plain, h1, h2}, "true",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			logged := new(testkit.Log)
			s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("ouch") })}
			if set {
				s.ErrorLog = log.New(logged, "", 0)
			} else {
				before := log.Writer()
				log.SetOutput(io.Discard)
				defer log.SetOutput(before)
			}
			start(t, kind, maker, s).get("/")
			for end := time.Now().Add(patience); set && time.Now().Before(end) && logged.String() == ""; {
				time.Sleep(time.Millisecond)
			}
			return fmt.Sprint(strings.Contains(logged.String(), "panic serving 127.0.0.1:") &&
				strings.Contains(logged.String(), "ouch"))
		}},
	"BaseContext": {[]string{plain, h1, h2}, "200 OK 1 127.0.0.1 true",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			calls := 0
			s := &http.Server{}
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Context().Value(key("base")), " ", r.Context().Value(http.ServerContextKey) == s)
			})
			if set {
				s.BaseContext = func(l net.Listener) context.Context {
					calls++
					return context.WithValue(context.Background(), key("base"),
						fmt.Sprint(calls, " ", l.Addr().(*net.TCPAddr).IP))
				}
			}
			return start(t, kind, maker, s).get("/")
		}},
	"ConnContext": {[]string{plain, h1, h2}, "200 OK 1 true true",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			calls := 0
			s := &http.Server{}
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
				fmt.Fprint(w, r.Context().Value(key("conn")) == "1 "+r.RemoteAddr, " ", local != nil &&
					local.String() == r.Host)
			})
			if set {
				s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
					calls++
					return context.WithValue(ctx, key("conn"), fmt.Sprint(calls, " ", c.RemoteAddr()))
				}
			}
			got := start(t, kind, maker, s).get("/")
			return strings.Replace(got, "OK", "OK "+fmt.Sprint(calls), 1)
		}},
	"HTTP2": {[]string{h2}, "7", func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
		s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0)}
		if set {
			s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 7}
		}
		return streamLimit(start(t, kind, maker, s).dial())
	}},
	"Protocols": {[]string{h2c}, "200 OK HTTP/2.0; HTTP/1 false",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
			if set {
				s.Protocols = new(http.Protocols)
				s.Protocols.SetUnencryptedHTTP2(true)
			}
			site := start(t, kind, maker, s)
			return fmt.Sprint(site.get("/"), "; HTTP/1 ", strings.Contains(site.sendText(getClose), "200"))
		}},
}

// streamLimit returns the SETTINGS_MAX_CONCURRENT_STREAMS that a server sends.
func streamLimit(c io.ReadWriter) string {
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	head := make([]byte, 9)
	io.ReadFull(c, head)
	settings := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
	io.ReadFull(c, settings)
	for part := range slices.Chunk(settings, 6) {
		if binary.BigEndian.Uint16(part) == 3 {
			return fmt.Sprint(binary.BigEndian.Uint32(part[2:]))
		}
	}
	return "none"
}

// The limits of an http2.Server apply that golang.org/x/net has configured the http.Server with.
func TestSettingsOfConfigureServerApply(t *testing.T) {
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0)}
			if err := http2.ConfigureServer(s, &http2.Server{MaxConcurrentStreams: 7}); err != nil {
				t.Fatal(err)
			}
			if got := streamLimit(start(t, h2, maker, s).dial()); got != "7" {
				t.Errorf("the limit of streams is %s", got)
			}
		})
	}
}

// showTLSNextProto has a protocol of its own served by its function, which turns to
// the handler; without HTTP/2 in it HTTP/2 is not offered.
func showTLSNextProto(t *testing.T, _ string, maker func(*http.Server) server, set bool) string {
	s := &http.Server{TLSConfig: &tls.Config{NextProtos: []string{"foo"}}, ErrorLog: log.New(io.Discard, "", 0)}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.TLS != nil && r.Body != nil && r.RemoteAddr != "")
	})
	if set {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"foo": func(hs *http.Server, c *tls.Conn, h http.Handler) {
				req, _ := http.ReadRequest(bufio.NewReader(c))
				req.TLS = nil
				ctx := h.(interface{ BaseContext() context.Context }).BaseContext()
				io.WriteString(c, "foo ")
				h.ServeHTTP(bare{c}, req)
				fmt.Fprint(c, " ", hs == s && ctx.Value(http.ServerContextKey) == s &&
					ctx.Value(http.LocalAddrContextKey) == c.LocalAddr())
			},
		}
	}
	site := start(t, h2, maker, s)
	config := site.trust.Clone()
	config.NextProtos = []string{"foo"}
	c, err := tls.Dial("tcp", site.addr, config)
	testkit.Must(t, err)
	defer c.Close()
	io.WriteString(c, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	b, _ := io.ReadAll(c)
	return string(b) + "; h2: " + site.get("/")
}

// bare is a ResponseWriter that writes what it is given.
type bare struct{ io.Writer }

func (bare) Header() http.Header { return http.Header{} }
func (bare) WriteHeader(int)     {}

// longer calls show with a short timeout, and with longer ones until it gets the wanted result. On
// a busy machine, a short timeout may pass before anything else has happened.
func longer(
	want string,
	show func(t *testing.T, kind string, maker func(*http.Server) server, set bool, short time.Duration) string) func(
	*testing.T, string, func(*http.Server) server, bool) string {
	return func(t *testing.T, kind string, maker func(*http.Server) server, set bool) (got string) {
		for short := 50 * time.Millisecond; short < 5*time.Second; short *= 3 {
			if got = show(t, kind, maker, set, short); !set || got == want {
				break
			}
		}
		return got
	}
}

// closed reports whether a connection is closed within a time.
func closed(c net.Conn, within time.Duration) string {
	c.SetReadDeadline(time.Now().Add(within))
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		return "open"
	}
	return "closed"
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func TestEveryServerFieldHasItsEffect(t *testing.T) {
	all := maps.Clone(fields)
	for f := range reflect.TypeFor[http.Server]().Fields() {
		if row, ok := newFields[f.Name]; ok {
			all[f.Name] = row
		}
		if _, ok := all[f.Name]; f.IsExported() && !ok {
			t.Errorf("nothing shows what http.Server.%s does", f.Name)
		}
	}
	for name, f := range all {
		for _, kind := range f.kinds {
			for by, maker := range makers {
				t.Run(fmt.Sprintf("%s/%s/%s", name, kind, by), func(t *testing.T) {
					if name != "ErrorLog" { // which shares the standard logger
						t.Parallel()
					}
					if got := f.show(t, kind, maker, true); got != f.want {
						t.Errorf("with it: %q, want %q", got, f.want)
					}
					if got := f.show(t, kind, maker, false); got == f.want {
						t.Errorf("it makes no difference: %q", got)
					}
				})
			}
		}
	}
}
