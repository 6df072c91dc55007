package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// deadlineCase is a sequence of deadlines set by a handler, with the server's timeouts.
type deadlineCase struct {
	name     string
	settings deadlineSettings
	pieces   []string // "late" waits longer than every timeout
	handler  func(w http.ResponseWriter, r *http.Request) string
	want     string // of the last response's body
}

// deadlineSettings says which timeouts of a server are set, to bound.
type deadlineSettings struct{ read, head, idle bool }

const (
	bound = 4 * time.Second
	late  = "\x00late"
)

func readAll(_ http.ResponseWriter, r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%s %v", b, timedOut(err))
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

// fill writes to a client that reads nothing, until a write fails.
func fill(w http.ResponseWriter, _ *http.Request) string {
	for {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return fmt.Sprint(timedOut(err))
		}
	}
}

var deadlineCases = func() (all []deadlineCase) {
	half, rest := "POST / HTTP/1.1\r\n", host+"Content-Length: 5\r\n\r\n"
	first := strings.Replace(get, "GET / ", "GET /first ", 1)
	for _, order := range [][]string{{"write far"}, {"write none"}, {"read far"}, {"read none"},
		{"read far", "write far"}, {"write far", "read far"}, {"read past", "write far", "read none"}} {
		name := strings.Join(order, ", ")
		reads, bounded := after(readAll, order...), strings.HasPrefix(name, "write") && !strings.Contains(name, "read")
		all = append(all,
			deadlineCase{"stale head: " + name, deadlineSettings{head: true},
				[]string{half, "", rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"stale idle: " + name, deadlineSettings{idle: true},
				[]string{first, "", half + rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"chunked: " + name, deadlineSettings{idle: true},
				[]string{first, "", half + host + "Transfer-Encoding: chunked\r\n\r\n", late,
					"5\r\nhello\r\n0\r\n\r\n"}, reads, "hello false"},
		)
		pieces, want := []string{half + rest, late, "hello"}, "hello false"
		if bounded {
			pieces, want = pieces[:1], " true" // ReadTimeout still applies
		}
		all = append(all, deadlineCase{"ReadTimeout: " + name, deadlineSettings{read: true}, pieces,
			reads, want})
		then := strings.Replace(half, "/ ", "/then ", 1) + rest
		all = append(all, deadlineCase{"kept: " + name, deadlineSettings{},
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
			deadlineCase{"after: " + name, deadlineSettings{}, []string{get, late, then, late, "hello"}, both,
				"hello false"},
			deadlineCase{"after, ReadTimeout: " + name, deadlineSettings{read: true},
				[]string{get, late, then}, both, " true"},
			deadlineCase{"pipelined: " + name, deadlineSettings{}, []string{get + get + then, late, "hello"}, both,
				"hello false"},
		)
	}
	all = append(all,
		deadlineCase{"both wait", deadlineSettings{}, []string{half + rest, late, "hello"},
			after(readAll, "write past", "read far", "write none"), "hello false"},
		deadlineCase{"read soon", deadlineSettings{}, []string{half + rest},
			after(readAll, "write far", "read soon"), " true"},
		deadlineCase{"set while reading", deadlineSettings{read: true},
			[]string{half + rest + "he", late, "llo"}, func(w http.ResponseWriter, r *http.Request) string {
				b := make([]byte, 2)
				_, _ = io.ReadFull(r.Body, b)
				go func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour)) }()
				return string(b) + readAll(w, r)
			}, "hello false"},
	)
	return all
}()

// server returns a server of the case.
func (d *deadlineCase) server() *http.Server {
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<"+d.handler(w, r)+">")
	})}
	if d.settings.read {
		set.ReadTimeout, set.IdleTimeout = bound, time.Hour
	}
	if d.settings.head {
		set.ReadHeaderTimeout = bound
	}
	if d.settings.idle {
		set.IdleTimeout = bound
	}
	return set
}

// check sends the pieces of the case and compares the last response.
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
	if last != d.want {
		t.Errorf("%s: %q, want %q in the end", d.name, last, d.want)
	}
}

// serveAlone runs a test with a server of a maker and one client connection in synthetic time.
func serveAlone(t *testing.T, newServer func(*http.Server) server, set *http.Server, test func(*testing.T, net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		s := newServer(set)
		done := goServe(s, nw.Listen())
		c, err := nw.Dial()
		testkit.Must(t, err)
		test(t, c)
		c.Close()
		s.Close()
		<-done
		pass(time.Second) // net/http may linger on the connection for half of it
	})
}

// Read and write deadlines of a handler affect neither each other, nor server timeouts that they do
// not replace, nor the next request.
func TestDeadlinesAreIndependent(t *testing.T) {
	for _, d := range deadlineCases {
		for maker, newServer := range makers {
			t.Run(maker+" "+d.name, func(t *testing.T) {
				serveAlone(t, newServer, d.server(), d.check)
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

// A handler's read deadline does not affect WriteTimeout; its write deadline replaces it.
func TestWriteDeadlineReplacesWriteTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration // WriteTimeout
		order   []string
		want    time.Duration // that the write takes
	}{
		"none":    {bound, nil, bound},
		"read":    {bound, []string{"read far"}, bound},
		"shorter": {time.Hour, []string{"write soon"}, bound / 2},
		"longer":  {bound / 8, []string{"write far", "read far", "write soon"}, bound / 2},
	} {
		for maker, newServer := range makers {
			t.Run(name+"/"+maker, func(t *testing.T) {
				got := ""
				set := &http.Server{WriteTimeout: test.timeout,
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						start := time.Now()
						got = fmt.Sprint(after(fill, test.order...)(w, r), time.Since(start))
					})}
				serveAlone(t, newServer, set, func(t *testing.T, c net.Conn) {
					io.WriteString(c, get)
					pass(2 * bound)
					if want := fmt.Sprint("true", test.want); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				})
			})
		}
	}
}

// A read deadline that expires while a context is in use does not hide the client's departure.
func TestReadDeadlineDoesNotHideDeparture(t *testing.T) {
	entered, ended := make(chan bool, 1), make(chan bool, 1)
	for name, order := range map[string][]string{"past": {"read past"}, "write": {"write past"}} {
		t.Run(name, func(t *testing.T) {
			beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
				readAll(w, r)
				done := r.Context().Done()
				after(readAll, order...)(w, r)
				entered <- true
				<-done
				ended <- true
			}), func(s *site) {
				for _, request := range []string{get, post} {
					c := s.connect()
					io.WriteString(c, request)
					<-entered
					time.Sleep(20 * time.Millisecond) // so that the context is in use
					c.Close()
					select {
					case <-ended:
					case <-time.After(time.Minute):
						s.Fatal("not cancelled")
					}
				}
			})
		})
	}
}
