package engine_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// rawHTTP2 is a client that writes any frames.
type rawHTTP2 struct {
	*testing.T
	net.Conn
	frames *testkit.Frames
	reader *http2.Framer
}

// raw connects a client whose first output is the preface and SETTINGS.
func (s *http2Site) raw() *rawHTTP2 {
	s.Helper()
	c := testkit.Value(s.dial())(s)
	s.Cleanup(func() { c.Close() })
	return newRawHTTP2(s.T, c)
}

func newRawHTTP2(t *testing.T, c net.Conn) *rawHTTP2 {
	r := &rawHTTP2{T: t, Conn: c, frames: newFrames(t), reader: http2.NewFramer(nil, c)}
	r.reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return r
}

// newFrames returns the preface and SETTINGS.
func newFrames(t *testing.T) *testkit.Frames {
	f := testkit.NewFrames(t)
	f.WriteString(http2.ClientPreface)
	f.Framer.WriteSettings()
	return f
}

// dial connects a client that sends what it wants.
func (s *http2Site) dial() (net.Conn, error) {
	c, err := s.site.dial()
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	if isTLS(s.mode) {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"},
			ClientSessionCache: s.tickets, ServerName: "a.test"})
	}
	return c, nil
}

// send sends frames that testkit.Frames reads from a text, behind those that were added before.
func (r *rawHTTP2) send(text string) {
	r.Helper()
	r.frames.Add(text)
	testkit.Send(r, r.Conn, r.frames.Bytes())
	r.frames.Reset()
}

// await reads frames until one has a description, or one that begins so, and returns it.
func (r *rawHTTP2) await(want string) (got string) {
	r.Helper()
	for !strings.HasPrefix(got, want) || got == "" {
		got = testkit.DescribeFrame(testkit.Value(r.reader.ReadFrame())(r))
	}
	return got
}

// A client that stops reading loses its connection, wherever the handlers run, and also while
// another handler waits.
func TestHTTP2StalledClientLosesConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const timeout = 300 * time.Millisecond
	for limit, set := range map[string]func(*engine.Server, *http.Server){
		"WriteByteTimeout": func(_ *engine.Server, set *http.Server) {
			set.HTTP2 = &http.HTTP2Config{WriteByteTimeout: timeout}
		},
		"SendTimeout":  func(s *engine.Server, _ *http.Server) { s.SendTimeout = timeout },
		"WriteTimeout": func(_ *engine.Server, set *http.Server) { set.WriteTimeout = 2 * time.Second }, // also of the handshake
	} {
		for mode := range http2Modes {
			for _, dispatch := range []engine.Dispatch{engine.OnLoop, engine.OwnGoroutine} {
				if dispatch == engine.OnLoop && strings.HasSuffix(mode, "-goroutine") {
					continue // there is no loop
				}
				t.Run(limit+" "+mode, func(t *testing.T) {
					t.Parallel()
					ended := make(chan struct{}, 2)
					settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/wait" {
							<-r.Context().Done()
						} else {
							writeForever(w)
						}
						ended <- struct{}{}
					})}
					s := extendedHTTP2Site(t, mode, settings, func(s *engine.Server) {
						s.Dispatch = dispatch
						set(s, settings)
					})
					s.raw().send("SETTINGS 2147483647, WINDOW_UPDATE 0 1073741824, GET 1 /wait, GET 3 /write")
					<-ended
					if limit != "SendTimeout" { // which ends the stream; the socket may accept the rest
						<-ended
					}
				})
			}
		}
	}
}

// extendedHTTP2Site is newHTTP2Site for a server with settings beyond http.Server's.
func extendedHTTP2Site(t *testing.T, mode string, set *http.Server, apply func(*engine.Server)) *http2Site {
	return startHTTP2Site(t, mode, set, func(set *http.Server) server {
		ours := engine.New(set)
		apply(ours)
		return ours
	})
}

// everyHTTP2Mode runs a test over every kind of connection. On shards, all handlers run on the loop
// first: what blocks there must be moved off it.
func everyHTTP2Mode(t *testing.T, handler http.HandlerFunc, test func(*http2Site)) {
	for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
		t.Run(mode, func(t *testing.T) {
			leaveNothing(t)
			test(newHTTP2Site(t, "on loop", mode, &http.Server{Handler: handler}))
		})
	}
}

// As with net/http, the files of a form do not outlast a handler that panics.
func TestHTTP2PanicRemovesFilesOfForm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	files := func() int { return len(testkit.Value(os.ReadDir(os.TempDir()))(t)) }
	for _, maker := range []string{"net/http", "tare"} {
		parsed := 0
		s := newHTTP2Site(t, maker, "h2c-shard", &http.Server{Handler: http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				testkit.Check(t, r.ParseMultipartForm(0))
				parsed = files()
				panic(http.ErrAbortHandler)
			})})
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part := testkit.Value(form.CreateFormFile("file", "name"))(t)
		testkit.Send(t, part, "content")
		form.Close()
		testkit.Fails(s.client.Post(s.url, form.FormDataContentType(), &body))(t, "INTERNAL_ERROR")
		testkit.Equal(t, parsed, 1, maker, "has made files")
		testkit.Equal(t, files(), 0, maker, "has left files")
	}
}

// A goroutine that reads the body of a request whose handler has returned never receives that of
// another.
func TestHTTP2BodyIsReadAfterReturn(t *testing.T) {
	var readers sync.WaitGroup
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
		own := r.URL.Path[1]
		started := make(chan struct{})
		readers.Go(func() {
			close(started)
			for p := make([]byte, 100); ; {
				n, err := r.Body.Read(p)
				if i := strings.IndexFunc(string(p[:n]), func(c rune) bool { return byte(c) != own }); i >= 0 {
					t.Errorf("the body of %q contains %q", own, p[:n])
				}
				if err != nil {
					return
				}
			}
		})
		<-started
		io.WriteString(w, r.URL.Path)
	}, func(s *http2Site) {
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				letter := string(rune('a' + i))
				for range 12 {
					body := strings.NewReader(strings.Repeat(letter, 20000))
					response, err := s.client.Post(s.url+"/"+letter, "a/b", body)
					if err != nil {
						t.Error(err)
						return
					}
					testkit.Reads(t, response.Body, "/"+letter)
					response.Body.Close()
				}
			})
		}
		clients.Wait()
		readers.Wait()
	})
}
