package engine_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// deadlineCase is a sequence of deadlines set by a handler, with the server's timeouts.
type deadlineCase struct {
	name     string
	settings func(*http.Server) // sets timeouts
	pieces   []string           // "late" waits longer than every timeout
	handler  func(w http.ResponseWriter, r *http.Request) string
	want     string // of the last response's body
}

const (
	bound = 4 * time.Second // ends no handshake, also on a busy machine
	late  = "\x00late"
)

func readAll(_ http.ResponseWriter, r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%s %v", b, os.IsTimeout(err))
}

// after returns a handler that sets deadlines in order and then calls then.
func after(then func(http.ResponseWriter, *http.Request) string, names ...string) func(http.ResponseWriter,
	*http.Request) string {
	return func(w http.ResponseWriter, r *http.Request) string {
		control := http.NewResponseController(w)
		for _, name := range names {
			which, when, _ := strings.Cut(name, " ")
			at := map[string]time.Time{"none": {}, "far": time.Now().Add(time.Hour), "past": time.Unix(1, 0),
				"soon": time.Now().Add(bound / 2)}[when]
			set := map[string]func(time.Time) error{"read": control.SetReadDeadline,
				"write": control.SetWriteDeadline}[which]
			if err := set(at); err != nil {
				return err.Error()
			}
		}
		return then(w, r)
	}
}

var deadlineCases = func() (all []deadlineCase) {
	none := func(*http.Server) {}
	readTimeout := func(s *http.Server) { s.ReadTimeout, s.IdleTimeout = bound, time.Hour }
	headTimeout := func(s *http.Server) { s.ReadHeaderTimeout = bound }
	idleTimeout := func(s *http.Server) { s.IdleTimeout = bound }
	half, rest := "POST / HTTP/1.1\r\n", host+"Content-Length: 5\r\n\r\n"
	first := strings.Replace(get, "GET / ", "GET /first ", 1)
	for _, order := range [][]string{{"write far"}, {"write none"}, {"read far"}, {"read none"},
		{"read far", "write far"}, {"write far", "read far"}, {"read past", "write far", "read none"}} {
		name := strings.Join(order, ", ")
		reads, bounded := after(readAll, order...), strings.HasPrefix(name, "write") && !strings.Contains(name, "read")
		all = append(all,
			deadlineCase{"stale head: " + name, headTimeout,
				[]string{half, "", rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"stale idle: " + name, idleTimeout,
				[]string{first, "", half + rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"chunked: " + name, idleTimeout,
				[]string{first, "", half + host + "Transfer-Encoding: chunked\r\n\r\n", late,
					"5\r\nhello\r\n0\r\n\r\n"}, reads, "hello false"},
		)
		pieces, want := []string{half + rest, late, "hello"}, "hello false"
		if bounded {
			pieces, want = pieces[:1], " true" // ReadTimeout still applies
		}
		all = append(all, deadlineCase{"ReadTimeout: " + name, readTimeout, pieces,
			reads, want})
		then := strings.Replace(half, "/ ", "/then ", 1) + rest
		all = append(all, deadlineCase{"kept: " + name, none,
			[]string{half + rest + "hello", late, then, late, "hello"}, reads, "hello false"})
	}
	for _, order := range [][]string{{"read past"}, {"write far"}, {"read past", "write soon"},
		{"write soon", "read past"}} {
		name := strings.Join(order, ", ")
		sets := after(func(http.ResponseWriter, *http.Request) string { return "set" }, order...)
		both := func(w http.ResponseWriter, r *http.Request) string {
			if r.URL.Path == "/then" {
				return readAll(w, r)
			}
			return sets(w, r)
		}
		then := strings.Replace(half, "/ ", "/then ", 1) + rest
		all = append(all,
			deadlineCase{"after: " + name, none, []string{get, late, then, late, "hello"}, both,
				"hello false"},
			deadlineCase{"after, ReadTimeout: " + name, readTimeout,
				[]string{get, late, then}, both, " true"},
			deadlineCase{"pipelined: " + name, none, []string{get + get + then, late, "hello"}, both,
				"hello false"},
		)
	}
	all = append(all,
		deadlineCase{"both wait", none, []string{half + rest, late, "hello"},
			after(readAll, "write past", "read far", "write none"), "hello false"},
		deadlineCase{"read soon", none, []string{half + rest},
			after(readAll, "write far", "read soon"), " true"},
		deadlineCase{"pipelined, ReadTimeout", readTimeout, []string{first + half + rest, late, "hello"},
			func(w http.ResponseWriter, r *http.Request) string {
				if r.URL.Path == "/first" {
					time.Sleep(bound * 3 / 2)
				}
				return readAll(w, r)
			}, "hello false"},
		deadlineCase{"set while reading", readTimeout,
			[]string{half + rest + "he", late, "llo"}, func(w http.ResponseWriter, r *http.Request) string {
				b := make([]byte, 2)
				_, _ = io.ReadFull(r.Body, b)
				go func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour)) }()
				return string(b) + readAll(w, r)
			}, "hello false"},
	)
	return all
}()

func (d *deadlineCase) server() *http.Server {
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<"+d.handler(w, r)+">")
	})}
	d.settings(set)
	return set
}

func (d *deadlineCase) check(t *testing.T, c net.Conn) {
	received := make(chan string, len(d.pieces)+1)
	go func() {
		defer close(received)
		for in := bufio.NewReader(c); ; {
			body, err := in.ReadString('>')
			if _, text, ok := strings.Cut(body, "<"); ok {
				received <- strings.TrimSuffix(text, ">")
			}
			if err != nil {
				return
			}
		}
	}()
	due := 0
	for _, p := range d.pieces {
		switch p {
		case late:
			time.Sleep(bound * 3 / 2)
			continue
		case "":
			time.Sleep(bound / 20)
		}
		due += strings.Count(p, " HTTP/1.1\r\n")
		io.WriteString(c, p)
	}
	last := "nothing"
	for range due {
		if body, ok := <-received; ok {
			last = body
		}
	}
	c.Close()
	testkit.Equal(t, last, d.want, d.name, "in the end")
}

// Read and write deadlines of a handler affect neither each other, nor server timeouts that they do
// not replace, nor the next request.
func TestDeadlinesAreIndependent(t *testing.T) {
	for _, d := range deadlineCases {
		for maker, newServer := range makers {
			t.Run(maker+" "+d.name, func(t *testing.T) {
				inBubble(t, newServer, d.server(), func(t *testing.T, _ server, c *testkit.MemConn) { d.check(t, c) })
			})
		}
	}
}

// The same holds on shards, which have another clock. All cases wait concurrently. The timeouts are
// so long that a handler sets its deadlines in time on a busy machine, too.
func TestDeadlinesAreIndependentOnShards(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, mode := range []string{"tcp", "ServeTLS"} {
		for _, d := range deadlineCases {
			s := siteOf(t, "tare", mode, d.server())
			all.Go(func() { d.check(t, s.connect()) })
		}
	}
}

const expectsContinue = "POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"

// unread are requests whose responses a client does not read, repeated. A server of FastCGI sends
// replies without a handler.
var unread = map[string]struct {
	text    string
	handler http.HandlerFunc
}{
	"replies":  {strings.Repeat(question, 1000), nil},
	"small":    {get, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 3<<10)) }},
	"no body":  {get, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	"large":    {get, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 32<<20)) }},
	"file":     {get, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, os.Args[0]) }}, // by the kernel
	"pieces":   {get, func(w http.ResponseWriter, _ *http.Request) { writeForever(w) }},
	"interim":  {get, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }},
	"continue": {expectsContinue + "x", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }},
	"refused": {strings.Repeat(get, 1000) + "malformed\r\n\r\n",
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "small") }},
}

func writeForever(w http.ResponseWriter) {
	for err := error(nil); err == nil; {
		_, err = w.Write(make([]byte, 1000))
	}
}

// A client that sends requests and reads nothing is disconnected, however short the responses are.
// The limit is set by a handler, by the server, or by WriteTimeout.
func TestSendTimeoutEndsUnreadConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const timeout = 50 * time.Millisecond
	before := func(set func(http.ResponseWriter) error) func(*engine.Server, *http.Server) {
		return func(_ *engine.Server, s *http.Server) {
			next := s.Handler
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				testkit.Check(t, set(w))
				next.ServeHTTP(w, r)
			})
		}
	}
	bounds := map[string]func(*engine.Server, *http.Server){
		"by handler": before(func(w http.ResponseWriter) error {
			return w.(connection.SendTimer).SetSendTimeout(timeout)
		}),
		"by deadline": before(func(w http.ResponseWriter) error {
			return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
		}),
		"by server":    func(s *engine.Server, _ *http.Server) { s.SendTimeout = timeout },
		"WriteTimeout": func(_ *engine.Server, set *http.Server) { set.WriteTimeout = timeout },
	}
	for name, u := range unread {
		for bound, apply := range bounds {
			kinds := []string{"unix", "memory"}
			if name == "large" || name == "small" || name == "file" {
				// TCP may stop by itself if a client has no room for many short responses.
				kinds = append(kinds, "tcp", "net.Conn", "tls", "ServeTLS")
			}
			isReply := u.handler == nil
			if bound != "by server" && name != "large" && name != "interim" && (!isReply || bound != "WriteTimeout") {
				continue // each limit is tried with two responses, and each response with one limit
			}
			t.Run(name+" "+bound, func(t *testing.T) {
				t.Parallel()
				someServers(t, handle(u.handler), func(s *engine.Server, set *http.Server) {
					apply(s, set)
					set.ReadHeaderTimeout = time.Hour // does not end the connection first
					s.FastCGI = isReply
				}, func(s *site) { s.sendUnread(u.text) }, kinds...)
			})
		}
	}
}

func (s *site) sendUnread(text string) {
	s.Helper()
	c := s.connect()
	for {
		if _, err := io.WriteString(c, text); err != nil {
			if os.IsTimeout(err) {
				s.Error("the connection was not closed")
			}
			return
		}
	}
}

// A client that reads a little from time to time receives everything. One that stops is
// disconnected a timeout later.
func TestSendTimeoutRestartsWithProgress(t *testing.T) {
	const timeout, each = 10 * time.Second, 20 << 10
	limited := func(set *http.Server) server {
		s := engine.New(set)
		s.SendTimeout = timeout
		return s
	}
	for _, reads := range []int{40, 3} {
		var failed chan error
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(bytes.Repeat([]byte("x"), 30*each))
			failed <- err
		})}
		inBubble(t, limited, set, func(t *testing.T, _ server, c *testkit.MemConn) {
			failed = make(chan error, 1)
			io.WriteString(c, withField("Connection: close"))
			got := 0
			for range reads {
				time.Sleep(timeout - time.Second)
				n, _ := io.ReadAtLeast(c, make([]byte, each), each)
				got += n
			}
			began := time.Now()
			if err := <-failed; reads == 3 {
				testkit.Is(t, err, os.ErrDeadlineExceeded, "the handler's Write")
				testkit.Between(t, time.Since(began), 0, timeout)
			} else {
				testkit.Check(t, err)
				testkit.Between(t, got, 30*each, 31*each, "bytes")
			}
		})
	}
}
