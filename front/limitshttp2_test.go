package front_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// h2Frame returns an HTTP/2 frame.
func h2Frame(kind, flags byte, stream uint32, content string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(content))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return string(b) + content
}

// As in nginx a stream counts for limit_conn until its client has let the whole body be sent.
func TestStreamCountsUntilBodyIsSent(t *testing.T) {
	noLeaks(t)
	const data, headers, settings, windowUpdate = 0, 1, 4, 8
	for _, size := range []int{11, 5000, 100_000} {
		body := strings.Repeat("x", size)
		to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)},
			Settings: &conf.Settings{Conns: []conf.ConnLimit{{Zone: "n", Max: 1}}}})
		c.Conns = []conf.Zone{{Name: "n", Key: "$request_method"}}
		s := httptest.NewUnstartedServer(newFront(t, c))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		nc, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		must(t, nc.SetDeadline(time.Now().Add(time.Minute)))
		// The client's window is ten bytes of a body, and the request is GET / of http://a.
		fmt.Fprint(nc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+h2Frame(settings, 0, 0,
			"\x00\x04\x00\x00\x00\x0a")+h2Frame(headers, 5, 1, "\x82\x86\x84\x41\x01a"))
		in, got := bufio.NewReader(nc), 0
		frame := func() {
			var h [9]byte
			_, err := io.ReadFull(in, h[:])
			must(t, err)
			n := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
			_, err = in.Discard(n)
			must(t, err)
			if h[3] == data {
				got += n
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
		fmt.Fprint(nc, h2Frame(windowUpdate, 0, 1, "\x00\x10\x00\x00")+h2Frame(windowUpdate, 0, 0, "\x00\x10\x00\x00"))
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
