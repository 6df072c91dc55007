package tare_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// newFields are the fields of http.Server that not all supported versions of Go have.
var newFields = map[string]field{
	"MaxHeaderValueCount": {[]string{plain, h1, h2}, "431",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{Handler: textHandler("x")}
			if set {
				reflect.ValueOf(s).Elem().FieldByName("MaxHeaderValueCount").SetInt(10)
			}
			return start(t, kind, maker, s).statusWith(11)
		}},
	"DisableClientPriority": {[]string{h2}, "in turns",
		func(t *testing.T, kind string, maker func(*http.Server) server, set bool) string {
			s := &http.Server{}
			if set {
				reflect.ValueOf(s).Elem().FieldByName("DisableClientPriority").SetBool(true)
			}
			return showPriority(t, kind, maker, s)
		}},
}

// statusWith returns the status of the response to a request with n more fields than the client
// adds.
func (s *site) statusWith(n int) string {
	r, _ := http.NewRequest(http.MethodGet, s.url, nil)
	for i := range n {
		r.Header.Set(fmt.Sprint("X-", i), "y")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}

// showPriority requests two long responses, of which the second is more urgent, and permits their
// bytes one by one. It returns which of them is sent.
func showPriority(t *testing.T, kind string, maker func(*http.Server) server, s *http.Server) string {
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) })
	c := start(t, kind, maker, s).dial()
	io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i, urgency := range []string{"u=7", "u=0"} {
		block.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/"},
			{"priority", urgency}} {
			encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(),
			EndHeaders: true, EndStream: true})
	}
	const first, last = 1<<16 + 200, 1<<16 + 500 // both responses wait long before these bytes
	less, heads := 0, 0                          // bytes of the less urgent response; responses that have begun
	for received, permitted := 0, 1<<16-1; permitted < last; {
		if received == permitted && heads == 2 {
			framer.WriteWindowUpdate(0, 1)
			permitted++
		}
		frame, err := framer.ReadFrame()
		testkit.Must(t, err)
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

// The field of a Server has the effect of http.Server's, with any version of Go.
func TestMaxHeaderValueCountIsThatOfServer(t *testing.T) {
	for most, want := range map[int]string{0: "431", 10: "431", 600: "200"} {
		maker := func(s *http.Server) server {
			ours := tare.Wrap(s)
			ours.MaxHeaderValueCount = most
			return ours
		}
		for _, kind := range []string{plain, h2} {
			if got := start(t, kind, maker, &http.Server{Handler: textHandler("x")}).statusWith(500); got != want {
				t.Errorf("%s, at most %d: %s", kind, most, got)
			}
		}
	}
}
