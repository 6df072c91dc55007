package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// As in nginx a stream counts for limit_conn until its client has let the whole body be sent.
func TestStreamCountsUntilBodyIsSent(t *testing.T) {
	noLeaks(t)
	for _, size := range []int{11, 5000, 100_000} {
		body := strings.Repeat("x", size)
		to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)},
			Settings: &conf.Settings{Conns: []conf.ConnLimit{{Zone: "n", Max: 1}}}})
		c.Conns = []conf.Zone{{Name: "n", Key: "$request_method"}}
		s := unencryptedHTTP2(t, newFront(t, c))
		nc, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		st, got := startH2(t, nc, 10), 0
		st.request(t, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/")
		frame := func() {
			f, err := st.ReadFrame()
			must(t, err)
			if data, ok := f.(*http2.DataFrame); ok {
				got += len(data.Data())
			}
		}
		for got < 10 {
			frame()
		}
		get := func() int {
			resp, err := http.Get(s.URL)
			must(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp.StatusCode
		}
		for range 20 {
			if status := get(); status != http.StatusServiceUnavailable {
				t.Fatalf("%d: %d while ten bytes have been sent", size, status)
			}
		}
		for stream := range uint32(2) { // the connection, and the stream
			must(t, st.WriteWindowUpdate(stream, 1<<20))
		}
		for got < size {
			frame()
		}
		testkit.WaitFor(t, "the place", func() bool { return get() == http.StatusOK })
		nc.Close()
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

// A bound handler receives an http.Hijacker over HTTP/1 only, however its response is treated.
func TestBoundHandlersHijackHTTP1Only(t *testing.T) {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, is := w.(http.Hijacker)
		_, err := io.WriteString(w, fmt.Sprint(is))
		fmt.Fprint(w, err, http.NewResponseController(w).Flush(), w.(interface{ FlushError() error }).FlushError())
	})
	for name, l := range map[string]conf.Location{
		"unchanged": {Proxy: &conf.Proxy{To: "app"}},
		"observed":  {Proxy: &conf.Proxy{To: "app"}, Settings: &conf.Settings{SendTimeout: time.Minute}},
		"changed":   {Proxy: &conf.Proxy{To: "app", Hide: []string{"X-Secret"}}},
	} {
		for _, isHTTP2 := range []bool{false, true} {
			l.Path = "/"
			s := httptest.NewUnstartedServer(newFront(t, oneHost(l), front.Bind("app", app)))
			s.EnableHTTP2 = isHTTP2
			s.StartTLS()
			t.Cleanup(s.Close)
			response, err := s.Client().Get(s.URL)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if want := fmt.Sprint(!isHTTP2) + "<nil> <nil> <nil>"; string(body) != want || err != nil {
				t.Errorf("%s, %s: %q %v, want %q", name, response.Proto, body, err, want)
			}
		}
	}
}
