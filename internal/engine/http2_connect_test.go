package engine_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// inExtendedConnectProcess reports whether net/http offers extended CONNECT in this process.
// Otherwise it runs the test in a process in which it does.
func inExtendedConnectProcess(t *testing.T) bool {
	const setting = "http2xconnect=1"
	if strings.Contains(os.Getenv("GODEBUG"), setting) {
		return true
	}
	c := testkit.Command(t, os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "GODEBUG="+setting)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// accept responds to an extended CONNECT request.
func accept(w http.ResponseWriter) {
	w.Header().Set("Sec-Websocket-Protocol", "chat")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// connectHandlers respond to extended CONNECT. After the response's head, the stream is as that of any
// POST.
var connectHandlers = map[string]http.HandlerFunc{
	"echo": func(w http.ResponseWriter, r *http.Request) {
		accept(w)
		fmt.Fprintf(w, "%s %q %s %#v %q %v %d %v\n", r.Method, r.RequestURI, r.Proto, *r.URL, r.Host, r.Header,
			r.ContentLength, r.TLS != nil)
		w.(http.Flusher).Flush()
		for p, err := make([]byte, 100), error(nil); err == nil; {
			var n int
			n, err = r.Body.Read(p)
			_, _ = w.Write(p[:n])
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "bye")
	},
	"rejected": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotImplemented) },
}

// connectAndSend sends an extended CONNECT request and then pieces, each when something has arrived
// after the piece before. It returns the response. It reads and writes frames: since Go 1.27, no client
// of net/http sends such a request.
func (s *http2Site) connectAndSend(pieces ...string) string {
	s.Helper()
	c := s.raw()
	c.request(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", s.url[:strings.Index(s.url, ":")],
		":authority", "a.test", ":path", "/chat%20a?room=1", "sec-websocket-version", "13", "origin", "https://a.test")
	c.send()
	var fields, body strings.Builder
	c.awaitFrame(func(frame http2.Frame) bool {
		hasArrived := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, f := range frame.Fields {
				if f.Name != "date" {
					fmt.Fprintln(&fields, f.Name, f.Value)
				}
			}
		case *http2.DataFrame:
			body.Write(frame.Data())
			hasArrived = len(frame.Data()) > 0
		}
		if hasArrived && len(pieces) > 0 {
			c.WriteData(1, len(pieces) == 1, []byte(pieces[0]))
			c.send()
			pieces = pieces[1:]
		}
		return frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream)
	})
	return fields.String() + body.String()
}

func TestExtendedConnectIsThatOfNetHTTP(t *testing.T) {
	if !inExtendedConnectProcess(t) {
		return
	}
	for name, handler := range connectHandlers {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			t.Run(name+" "+mode, func(t *testing.T) {
				result := func(maker string) string {
					return newHTTP2Site(t, maker, mode, &http.Server{Handler: handler}).connectAndSend("hello", "world")
				}
				testkit.Equal(t, result("tare"), result("net/http"))
			})
		}
	}
}
