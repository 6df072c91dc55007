package engine_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// tunnel is an extended CONNECT request that has received its response, whose Body is what arrives.
// It reads and writes frames: since Go 1.27, no client of net/http sends such a request.
type tunnel struct {
	*http.Response
	*rawHTTP2
}

// connect sends an extended CONNECT request on a connection of its own.
func (s *http2Site) connect() *tunnel {
	s.Helper()
	const window = 1 << 20 // more than any test receives
	c := &tunnel{rawHTTP2: s.raw(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})}
	c.WriteWindowUpdate(0, window)
	c.request(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", s.url[:strings.Index(s.url, ":")],
		":authority", "a.test", ":path", "/chat%20a?room=1", "sec-websocket-version", "13", "origin", "https://a.test")
	c.send()
	body, arrived := io.Pipe()
	heads := make(chan *http.Response, 1)
	go func() {
		var err error
		for err == nil {
			err = c.receive(heads, arrived)
		}
		arrived.CloseWithError(err)
		close(heads)
	}()
	response, ok := <-heads
	if !ok {
		s.Fatal("no response")
	}
	c.Response, response.Body = response, body
	return c
}

// receive reads a frame. It returns io.EOF at the end of the stream.
func (c *tunnel) receive(heads chan<- *http.Response, arrived io.Writer) error {
	frame, err := c.ReadFrame()
	if err != nil {
		return err
	}
	switch frame := frame.(type) {
	case *http2.MetaHeadersFrame:
		heads <- responseOf(frame)
	case *http2.DataFrame:
		_, _ = arrived.Write(frame.Data())
	case *http2.RSTStreamFrame:
		return errors.New(frame.ErrCode.String())
	}
	if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
		return io.EOF
	}
	return nil
}

// responseOf returns the head of a response.
func responseOf(frame *http2.MetaHeadersFrame) *http.Response {
	r := &http.Response{Status: frame.PseudoValue("status"), Header: make(http.Header), ContentLength: -1}
	for _, f := range frame.RegularFields() {
		r.Header.Add(f.Name, f.Value)
	}
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil {
		r.ContentLength = n
	}
	return r
}

// sendData sends DATA, which may end the stream.
func (c *tunnel) sendData(text string, ends bool) {
	for piece := range slices.Chunk([]byte(text), 16<<10) {
		c.WriteData(1, false, piece)
	}
	if ends {
		c.WriteData(1, true, nil)
	}
	c.send()
}

// exchange sends text and returns as many bytes of the response.
func (c *tunnel) exchange(text string) string {
	sent := make(chan bool)
	go func() { // the server responds meanwhile
		defer close(sent)
		c.sendData(text, false)
	}()
	got := make([]byte, len(text))
	_, err := io.ReadFull(c.Body, got)
	<-sent
	return fmt.Sprint(string(got), " ", err)
}

// accept responds to an extended CONNECT request.
func accept(w http.ResponseWriter) {
	w.Header().Set("Sec-Websocket-Protocol", "chat")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// echoFlushed responds with what it receives, until the client ends its output.
func echoFlushed(w http.ResponseWriter, r *http.Request) error {
	for p := make([]byte, 100); ; {
		n, err := r.Body.Read(p)
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		w.(http.Flusher).Flush()
		if err != nil {
			return err
		}
	}
}

// connectCases are what handlers and clients do. Each returns what both observe.
var connectCases = map[string]func(s *http2Site, handlers chan http.HandlerFunc, seen chan string) string{
	"echo": func(s *http2Site, handlers chan http.HandlerFunc, seen chan string) string {
		handlers <- func(w http.ResponseWriter, r *http.Request) {
			seen <- fmt.Sprintf("%s %q %s %#v %q %v %d %v", r.Method, r.RequestURI, r.Proto, *r.URL, r.Host, r.Header,
				r.ContentLength, r.TLS != nil)
			accept(w)
			err := echoFlushed(w, r)
			_, _ = io.WriteString(w, "bye")
			seen <- fmt.Sprint(err)
		}
		c := s.connect()
		c.Header.Del("Date")
		got := fmt.Sprint(<-seen, c.Status, c.Header, c.ContentLength, c.exchange("hello"), c.exchange("world"),
			c.exchange(strings.Repeat("x", 200000)) == strings.Repeat("x", 200000)+" <nil>")
		c.sendData("", true)
		rest, err := io.ReadAll(c.Body)
		return fmt.Sprint(got, <-seen, string(rest), err)
	},
	"reset": func(s *http2Site, handlers chan http.HandlerFunc, seen chan string) string {
		handlers <- func(w http.ResponseWriter, r *http.Request) {
			accept(w)
			err := echoFlushed(w, r)
			<-r.Context().Done()
			seen <- fmt.Sprint(err != nil && !errors.Is(err, io.EOF), r.Context().Err())
		}
		c := s.connect()
		got := c.exchange("hello")
		c.WriteRSTStream(1, http2.ErrCodeCancel)
		c.send()
		return got + <-seen
	},
	"rejected": func(s *http2Site, handlers chan http.HandlerFunc, _ chan string) string {
		handlers <- func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotImplemented) }
		c := s.connect()
		body, err := io.ReadAll(c.Body)
		return fmt.Sprint(c.Status, c.ContentLength, string(body), err)
	},
	"panic": func(s *http2Site, handlers chan http.HandlerFunc, _ chan string) string {
		handlers <- func(w http.ResponseWriter, r *http.Request) {
			accept(w)
			_, _ = io.ReadFull(r.Body, make([]byte, 1))
			panic(http.ErrAbortHandler)
		}
		c := s.connect()
		c.sendData("x", false)
		_, err := io.ReadAll(c.Body)
		return fmt.Sprint(strings.Contains(fmt.Sprint(err), "INTERNAL_ERROR"))
	},
	"hijack": func(s *http2Site, handlers chan http.HandlerFunc, seen chan string) string {
		handlers <- func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := http.NewResponseController(w).Hijack()
			seen <- fmt.Sprint(errors.Is(err, http.ErrNotSupported))
		}
		s.connect()
		return <-seen
	},
	"early return": func(s *http2Site, handlers chan http.HandlerFunc, _ chan string) string {
		handlers <- func(w http.ResponseWriter, _ *http.Request) {
			accept(w)
			_, _ = io.WriteString(w, "bye")
		}
		c := s.connect()
		body, err := io.ReadAll(c.Body)
		return fmt.Sprint(string(body), err)
	},
	"deadlines": func(s *http2Site, handlers chan http.HandlerFunc, seen chan string) string {
		handlers <- func(w http.ResponseWriter, r *http.Request) {
			accept(w)
			control := http.NewResponseController(w)
			first := control.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err := r.Body.Read(make([]byte, 1))
			_, _ = io.WriteString(w, "late")
			seen <- fmt.Sprint(first, errors.Is(err, os.ErrDeadlineExceeded), control.Flush())
			_ = control.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			<-r.Context().Done()
			_, err = io.WriteString(w, "x")
			seen <- fmt.Sprint(err != nil || control.Flush() != nil)
		}
		c := s.connect()
		got := make([]byte, len("late"))
		_, err := io.ReadFull(c.Body, got)
		_, end := io.ReadAll(c.Body)
		return fmt.Sprint(<-seen, string(got), err, <-seen, strings.Contains(fmt.Sprint(end), "INTERNAL_ERROR"))
	},
}

func TestExtendedConnectIsThatOfNetHTTP(t *testing.T) {
	if !inExtendedConnectProcess(t) {
		return
	}
	for name, run := range connectCases {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			t.Run(name+" "+mode, func(t *testing.T) {
				result := func(maker string) string {
					handlers, seen := make(chan http.HandlerFunc, 1), make(chan string, 4)
					s := newHTTP2Site(t, maker, mode, &http.Server{Handler: http.HandlerFunc(
						func(w http.ResponseWriter, r *http.Request) { (<-handlers)(w, r) })})
					return run(s, handlers, seen)
				}
				testkit.Equal(t, result("tare"), result("net/http"))
			})
		}
	}
}
