package tare_test

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
)

const getClose = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// field shows what a field of http.Server does.
type field struct {
	kinds []string
	want  string
	set   func(*http.Server)
	// show runs a server with or without the field set, and returns what a client observes.
	show func(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string
}

func textHandler(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

// shownByNetHTTP are the exported fields of http.Server whose effects tests of net/http show, which
// TestServerTestsOfNetHTTPPass runs, and one of these tests.
var shownByNetHTTP = map[string]string{
	"Handler":                      "TestServerContentType",
	"DisableGeneralOptionsHandler": "TestOptionsHandler",
	"ReadTimeout":                  "TestServerReadTimeout",
	"ReadHeaderTimeout":            "TestServerReadHeaderTimeoutIsCleared",
	"WriteTimeout":                 "TestServerWriteTimeout",
	"IdleTimeout":                  "TestServerIdleTimeout",
	"ConnState":                    "TestServerConnState",
	"ErrorLog":                     "TestHandlerPanic",
	"BaseContext":                  "TestServerContexts",
	"ConnContext":                  "TestServerContexts",
	"TLSNextProto":                 "TestNextProtoUpgrade",
	"MaxHeaderValueCount":          "TestRequestHeaderValueCountLimit",
}

// fields are the other exported fields of http.Server, of which some versions of Go do not have all.
// Each has the same effect in tare and in net/http, and an effect that differs from that of its
// absence.
var fields = map[string]field{
	"Addr": {[]string{plain}, "listen tcp: address 99999: invalid port", func(s *http.Server) { s.Addr = ":99999" },
		func(_ *testing.T, _ string, maker func(*http.Server) server, s *http.Server) string {
			s.Addr = cmp.Or(s.Addr, ":99998")
			return maker(s).ListenAndServe().Error()
		}},
	"TLSConfig": {[]string{h1, h2}, "failed",
		func(s *http.Server) { s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13} },
		func(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
			site := start(t, kind, maker, s)
			site.client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
			return site.get("/")
		}},
	"MaxHeaderBytes": {[]string{plain, h1, h2}, "431", func(s *http.Server) { s.MaxHeaderBytes = 1 },
		func(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
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
	"HTTP2": {[]string{h2}, "7",
		func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 7} },
		func(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
			return streamLimit(t, start(t, kind, maker, s).dial())
		}},
	"Protocols": {[]string{h2c}, "200 OK HTTP/2.0; HTTP/1 false",
		func(s *http.Server) { s.Protocols = protocols((*http.Protocols).SetUnencryptedHTTP2) },
		func(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
			site := start(t, kind, maker, s)
			return fmt.Sprint(site.get("/"), "; HTTP/1 ", strings.Contains(site.sendText(getClose), "200"))
		}},
	"DisableClientPriority": {[]string{h2}, "in turns",
		func(s *http.Server) { reflect.ValueOf(s).Elem().FieldByName("DisableClientPriority").SetBool(true) },
		showPriority},
}

func streamLimit(t *testing.T, c io.ReadWriter) string {
	testkit.Send(t, c, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	testkit.Must(t, framer.WriteSettings())
	limit, _ := testkit.Value(framer.ReadFrame())(t).(*http2.SettingsFrame).Value(http2.SettingMaxConcurrentStreams)
	return fmt.Sprint(limit)
}

// The limits of an http2.Server apply that golang.org/x/net has configured the http.Server with.
func TestSettingsOfConfigureServerApply(t *testing.T) {
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0)}
			testkit.Must(t, http2.ConfigureServer(s, &http2.Server{MaxConcurrentStreams: 7}))
			testkit.Equal(t, streamLimit(t, start(t, h2, maker, s).dial()), "7", "the limit of streams")
		})
	}
}

func TestEveryServerFieldHasItsEffect(t *testing.T) {
	for f := range reflect.TypeFor[http.Server]().Fields() {
		if _, ok := fields[f.Name]; f.IsExported() && !ok && shownByNetHTTP[f.Name] == "" {
			t.Errorf("nothing shows what http.Server.%s does", f.Name)
		}
	}
	for name, f := range fields {
		if _, exists := reflect.TypeFor[http.Server]().FieldByName(name); !exists {
			continue
		}
		for _, kind := range f.kinds {
			for by, maker := range makers {
				t.Run(fmt.Sprintf("%s/%s/%s", name, kind, by), func(t *testing.T) {
					t.Parallel()
					for _, isSet := range []bool{true, false} {
						s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(
							func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
						if isSet {
							f.set(s)
						}
						got := f.show(t, kind, maker, s)
						testkit.Equal(t, got == f.want, isSet, "with it", isSet, "the client observes", got)
					}
				})
			}
		}
	}
}

// showPriority requests two long responses, of which the second is more urgent, and permits their
// bytes one by one. It returns which of them is sent.
func showPriority(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) })
	c := start(t, kind, maker, s).dial()
	requests, framer := h2test.NewFrames(t), http2.NewFramer(c, c)
	requests.WriteString(http2.ClientPreface)
	requests.Add("SETTINGS 1048576, GET 1 priority=u=7, GET 3 priority=u=0")
	testkit.Send(t, c, requests.Bytes())
	const first, last = 1<<16 + 200, 1<<16 + 500 // both responses wait long before these bytes
	less, heads := 0, 0                          // bytes of the less urgent response; responses that have begun
	for received, permitted := 0, 1<<16-1; permitted < last; {
		if received == permitted && heads == 2 {
			framer.WriteWindowUpdate(0, 1)
			permitted++
		}
		frame := testkit.Value(framer.ReadFrame())(t)
		if _, ok := frame.(*http2.HeadersFrame); ok {
			heads++
		}
		if data, ok := frame.(*http2.DataFrame); ok {
			received += len(data.Data())
			if received > first && data.StreamID == 1 {
				less++
			}
		}
	}
	if less > (last-first)/4 { // the urgent one is not always ready
		return "in turns"
	}
	return "the most urgent first"
}

// Fields and methods of a Server that http.Server does not have reach the engine.
func TestServerFieldsHaveTheirEffect(t *testing.T) {
	var ours *tare.Server
	refused, failed := make(chan tare.Refusal, 1), make(chan error, 1)
	site := start(t, plain, func(s *http.Server) server {
		ours = tare.Wrap(s)
		ours.Refused = func(r tare.Refusal) { refused <- r }
		ours.SendTimeout, ours.MaxHeaderValueCount = 50*time.Millisecond, 600 // the default is 500
		return ours
	}, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Method == http.MethodPost {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	})})
	testkit.Contains(t, site.sendText("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), " 400 ")
	testkit.Equal(t, testkit.Receive(t, refused, "a refusal").Status, http.StatusBadRequest)
	testkit.Send(t, site.dial(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	testkit.Is(t, testkit.Receive(t, failed, "the error of Write"), os.ErrDeadlineExceeded)
	ours.Retire()
	many := "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 550) + "\r\n"
	testkit.Matches(t, site.sendText(many), "^HTTP/1.1 200 OK\r\n(.+\r\n)*Connection: close\r\n", "the last response")
}
