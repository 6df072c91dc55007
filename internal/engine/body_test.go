package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// Clients that are still sending a large body when the response comes receive the response, and no
// reset.
func TestResponseBeforeEndOfBodyArrives(t *testing.T) {
	testkit.Long(t, "it takes seconds")
	const why = "too much"
	t.Parallel()
	content := make([]byte, 5<<20)
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		_ = w.(connection.ResponseWriter).SetLinger(time.Minute, time.Minute, false) // a busy machine may be slow
		http.Error(w, why, http.StatusRequestEntityTooLarge)
	}), func(s *site) {
		for i := range 8 {
			body := io.Reader(bytes.NewReader(content))
			if i%2 > 0 {
				body = io.MultiReader(body) // of unknown length
			}
			req := testkit.Value(http.NewRequest(http.MethodPost, s.url, body))(s)
			req.Close = i%4 > 1
			resp := testkit.Value(s.client.Do(req))(s)
			testkit.Equal(s, resp.StatusCode, http.StatusRequestEntityTooLarge)
			testkit.Reads(s, resp.Body, why+"\n", "round", i)
			resp.Body.Close()
		}
		c := s.connect() // a client that sends everything before it reads
		fmt.Fprintf(c, "POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", len(content))
		testkit.Send(s, c, content)
		testkit.Contains(s, readAllOf(s.T, c), why)
	}, "tcp", "net.Conn", "tls", "ServeTLS")
}

// uploads are requests whose body comes later, and that body.
var uploads = map[string]struct{ head, body string }{
	"length":  {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n", "hello"},
	"chunked": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"},
	"part":    {"POST / HTTP/1.1\r\n" + host + "Content-Length: 6\r\n\r\nh", "ello!"},
	"expects": {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", "hello"},
	"last":    {"POST / HTTP/1.0\r\n" + host + "Content-Length: 5\r\n\r\n", "hello"},
	"long":    {"POST / HTTP/1.0\r\n" + host + "Content-Length: 20000\r\n\r\n", strings.Repeat("hello", 4000)},
	"unkept":  {"POST / HTTP/1.1\r\n" + host + "Content-Length: 20000\r\n\r\n", strings.Repeat("hello", 4000)},
}

// While a goroutine of a handler waits for the body, every other use of request and response works.
func TestWaitingForBodyBlocksNothingElse(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	steps := map[string]http.HandlerFunc{
		"write": func(http.ResponseWriter, *http.Request) {},
		"done":  func(_ http.ResponseWriter, r *http.Request) { r.Context().Done() },
		"err":   func(_ http.ResponseWriter, r *http.Request) { _ = r.Context().Err() },
		"derived": func(_ http.ResponseWriter, r *http.Request) {
			_, cancel := context.WithCancel(r.Context())
			cancel()
		},
		"afterfunc": func(_ http.ResponseWriter, r *http.Request) { context.AfterFunc(r.Context(), func() {}) },
		"deadlines": func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(time.Hour))
			_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
		},
		// which blocks in net/http
		"close":  func(_ http.ResponseWriter, r *http.Request) { go r.Body.Close() },
		"notify": func(w http.ResponseWriter, _ *http.Request) { w.(http.CloseNotifier).CloseNotify() },
		"hints":  status(http.StatusEarlyHints),
		"long":   write(strings.Repeat("long\n", 2000)),
	}
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		begun, read := make(chan bool), make(chan string, 1)
		go func() {
			close(begun)
			b, err := io.ReadAll(r.Body)
			read <- fmt.Sprintf("%s %v", b, err)
		}()
		<-begun
		time.Sleep(time.Millisecond) // so that it most likely waits
		step := r.Header.Get("Step")
		steps[step](w, r)
		io.WriteString(w, "greeting!")
		w.(http.Flusher).Flush()
		if step == "close" {
			return
		}
		io.WriteString(w, <-read)
	}), func(s *site) {
		for step := range steps {
			for name, upload := range uploads {
				s.server.SetKeepAlivesEnabled(name != "unkept")
				c := s.connect()
				io.WriteString(c, strings.Replace(upload.head, host, host+"Step: "+step+"\r\n", 1))
				in := bufio.NewReader(c)
				if got, err := in.ReadString('!'); err != nil {
					s.Fatalf("%s %s: %q: %v", step, name, got, err)
				}
				if step == "close" {
					c.Close()
					continue
				}
				io.WriteString(c, upload.body+strings.ReplaceAll(get, host,
					host+"Step: write\r\nConnection: close\r\n"))
				b, err := io.ReadAll(in)
				isLast := name == "unkept" || strings.Contains(upload.head, "HTTP/1.0")
				switch got := string(b); {
				case err == nil && strings.Contains(got, "hello") && (strings.Count(got, "<nil>") == 2 || isLast):
				case err == nil && name == "expects" && (strings.Contains(got, "hello <nil>") ||
					strings.Contains(got, http.ErrBodyReadAfterClose.Error())): // the response has begun before
				default:
					s.Errorf("%s %s: %q: %v", step, name, b, err)
				}
				c.Close()
			}
		}
	})
}

// What a socket or a pipe provides is sent at once if the response is not framed, as in net/http.
func TestPiecesOfStreamsAreSentAtOnce(t *testing.T) {
	const piece, pieces = 3000, 3
	sent := make(chan bool)
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		src, feed, err := os.Pipe()
		testkit.Must(t, err)
		defer src.Close()
		w.Header().Set("Content-Length", fmt.Sprint(piece*pieces))
		go func() {
			defer feed.Close()
			for range pieces {
				_, _ = feed.Write(make([]byte, piece))
				<-sent
			}
		}()
		if r.Method == http.MethodPost {
			_, err = io.Copy(w, src)
		} else {
			_, err = io.CopyN(w, src, piece*pieces)
		}
		testkit.Check(t, err)
	}), func(s *site) {
		for _, request := range []string{get, post} {
			c := s.connect()
			io.WriteString(c, request)
			resp := testkit.Value(http.ReadResponse(bufio.NewReader(c), nil))(s)
			for range pieces {
				testkit.Value(io.ReadFull(resp.Body, make([]byte, piece)))(s)
				sent <- true
			}
		}
	})
}

// rawHeads are field lines of upstreams' responses, in canonical spelling.
var rawHeads = []string{
	"", "Content-Length: 5\r\n", "Content-Length: 4\r\n", "Content-Type: a/b\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n",
	"Content-Length: 0\r\n", "Date: then\r\n", "Status: 404\r\nX-A: 1\r\n", "Content-Encoding: gzip\r\n",
	"Transfer-Encoding: chunked\r\nTrailer: X-A\r\nUpgrade: x\r\nKeep-Alive: 1\r\nConnection: close\r\nX-A: 1\r\n",
}

func parseFields(lines string) ([]byte, []http1.Field, error) {
	head := []byte("HTTP/1.1 200 OK\r\n" + lines + "\r\n")
	var r http1.Response
	_, err := r.Parse(head, http1.Limits{Bytes: 1 << 20, Fields: 100})
	return head, r.Fields, err
}

type rawCase struct {
	lines          string
	status, length int
}

func (c rawCase) asReceived(w http.ResponseWriter, _ *http.Request) {
	head, fields, err := parseFields(c.lines)
	raw := w.(connection.RawSender)
	if err != nil || !raw.TakesRawHeader(c.status) {
		panic(fmt.Sprint("a new response has fields, or ", err))
	}
	raw.WriteRawHeader(c.status, head, fields, nil)
	for i := range head {
		head[i] = 0xdb // it belongs to the caller again
	}
	_, _ = io.WriteString(w, strings.Repeat("x", c.length))
}

func (c rawCase) inHeader(w http.ResponseWriter, _ *http.Request) {
	head, fields, err := parseFields(c.lines)
	if err != nil {
		panic(err)
	}
	header := w.Header()
	header["Content-Type"] = nil
	for _, f := range fields {
		switch name := string(f.Name.In(head)); name {
		case "Connection", "Transfer-Encoding", "Trailer", "Upgrade", "Keep-Alive":
		default:
			header[name] = append(header[name], string(f.Value.In(head)))
		}
	}
	w.WriteHeader(c.status)
	_, _ = io.WriteString(w, strings.Repeat("x", c.length))
}

// A response with fields as they were received equals one with the same fields in its Header,
// except for their order. Framing, persistence and the date are decided in the same way.
func TestRawFieldsAreFramedAsOthers(t *testing.T) {
	for _, lines := range rawHeads {
		for _, status := range []int{200, 204, 304} {
			for _, length := range []int{0, 5, 3000, 40_000} {
				c := rawCase{lines, status, length}
				for _, request := range []string{get, head, getOld, getKeep} {
					by := func(h http.HandlerFunc) string {
						return transcript(t, httpServer, &http.Server{Handler: h}, []string{request, closeWrite})
					}
					testkit.Equal(t, by(c.asReceived), by(c.inHeader), fmt.Sprintf("%q: %+v", request, c))
				}
			}
		}
	}
}

// Fields keep their order and spelling, come before those of the Header, and no type is detected. Over
// FastCGI, fields about the connection and Status are dropped: Status is CGI's status line.
func TestRawFieldsKeepTheirSpelling(t *testing.T) {
	const lines = "x-b: 1\r\nETag: 2\r\nX-A:  3 \r\nx-b: 4\r\n"
	const sent = "x-b: 1\r\nETag: 2\r\nX-A: 3\r\nx-b: 4\r\nX-Added: 5\r\nContent-Length: 6\r\n"
	raw := func(more string) func() *http.Server {
		return handle(func(w http.ResponseWriter, _ *http.Request) {
			head, fields, err := parseFields(lines + more + "content-length: 6\r\n")
			testkit.Check(t, err)
			w.Header().Set("X-Added", "5")
			w.(connection.RawSender).WriteRawHeader(201, head, fields, nil)
			_, _ = io.WriteString(w, "<html>")
		})
	}
	bothPaths(t, raw(""), func(s *site) {
		got, _, _ := strings.Cut(s.exchangeText(withField("Connection: close")), "Date: ")
		testkit.Equal(s, got, "HTTP/1.1 201 Created\r\n"+sent)
	})
	bothFCGIPaths(t, raw("Status: 404\r\nKeep-Alive: 2\r\n"), func(s *fcgiSite) {
		a := s.roundTrip(aGET("/"))
		head, _, _ := strings.Cut(string(a.stdout), "Date: ")
		testkit.Equal(s, head, "Status: 201 Created\r\n"+sent)
		testkit.Equal(s, a.body, "<html>")
	})
}

// A response that outlasts its handler is as that of a handler that takes as long: to a client that
// reads late, at its end, with a panic, and to a client that leaves. Only sockets of a shard
// without TLS can do without the handler.
func TestResponsesOutlastHandlers(t *testing.T) {
	piece := bytes.Repeat([]byte("0123456789abcde\n"), 900)
	const pieces = 400 // more than sockets hold
	t.Parallel()
	var detached atomic.Int32
	left := make(chan error, 1)
	handler := func(w http.ResponseWriter, r *http.Request) {
		flush := func() { _ = http.NewResponseController(w).Flush() }
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(piece)
		flush()
		var trySend func([]byte) connection.Delivery
		stream := func() (why any) {
			if r.URL.Path == "/left" {
				<-r.Context().Done()
				left <- r.Context().Err()
				return http.ErrAbortHandler
			}
			for range pieces - 1 {
				how := connection.Refused
				if trySend != nil {
					how = trySend(piece)
				}
				if how == connection.Refused {
					if _, err := w.Write(piece); err != nil {
						return http.ErrAbortHandler
					}
				}
				if how != connection.Delivered {
					flush()
				}
			}
			if r.URL.Path == "/aborted" {
				return http.ErrAbortHandler
			}
			return nil
		}
		if d, ok := w.(connection.TrySender); ok {
			trySend = d.TrySender(func(end func(why any)) { go func() { end(stream()) }() })
		}
		if trySend != nil {
			detached.Add(1)
		} else if why := stream(); why != nil {
			panic(why)
		}
	}
	everyMode(t, handle(handler), func(s *site) {
		detached.Store(0)
		for range 2 {
			testkit.Equal(t, len(s.get("/")), pieces*len(piece))
		}
		n, _ := s.server.Connections()
		testkit.Equal(t, n, 1, "connections, of which the first one can be kept")
		resp := testkit.Value(s.client.Get(s.url + "/aborted"))(t)
		testkit.FailsWith(io.ReadAll(resp.Body))(t, io.ErrUnexpectedEOF, "aborted")
		ctx, leave := context.WithCancel(t.Context())
		resp = testkit.Value(s.client.Do(testkit.Value(http.NewRequestWithContext(ctx, "GET", s.url+"/left", nil))(t)))(t)
		leave()
		resp.Body.Close()
		testkit.Equal(t, <-left, context.Canceled, "after the client has left")
		want := int32(0)
		if isSocket := s.mode == "tcp" || s.mode == "unix"; isSocket && runtime.GOOS == "linux" {
			want = 4
		}
		testkit.Equal(t, detached.Load(), want, "detached responses")
	})
}

// HTTP/2's preface counts at the beginning of a connection only. After a request of HTTP/1 it gets
// a 505, also if the response to that request was handed off or has outlasted its handler.
func TestPrefaceFollowsNoRequest(t *testing.T) {
	for _, dispatch := range []engine.Dispatch{engine.OnLoop, engine.OwnGoroutine} {
		someServers(t, handle(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begun, ")
			_ = http.NewResponseController(w).Flush()
			if d, ok := w.(connection.TrySender); r.URL.Path == "/detached" && ok && d.TrySender(func(end func(why any)) {
				go end(nil)
			}) != nil {
				return
			}
			_, _ = io.WriteString(w, "ended")
		}), func(s *engine.Server, set *http.Server) {
			s.Dispatch, set.Protocols = dispatch, new(http.Protocols)
			set.Protocols.SetHTTP1(true)
			set.Protocols.SetUnencryptedHTTP2(true)
		}, func(s *site) {
			for _, path := range []string{"/", "/detached"} {
				got := s.exchangeAborted(target(path) + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
				testkit.Contains(s, got, "\r\n0\r\n\r\nHTTP/1.1 505 ", path)
			}
		}, "tcp")
	}
}
