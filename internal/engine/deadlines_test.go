package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// deadlineCase is a sequence of deadlines set by a handler, with the server's timeouts.
type deadlineCase struct {
	name     string
	settings deadlineSettings
	pieces   []string // "late" waits longer than every timeout
	handler  func(w http.ResponseWriter, r *http.Request) string
	want     string // of the last response's body
}

// deadlineSettings are the timeouts of a server; they are comparable.
type deadlineSettings struct{ read, head, idle time.Duration }

const (
	bound = 800 * time.Millisecond
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
				"soon": time.Now().Add(bound / 4)}[when]
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
			deadlineCase{"stale head: " + name, deadlineSettings{head: bound},
				[]string{half, "", rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"stale idle: " + name, deadlineSettings{idle: bound},
				[]string{first, "", half + rest, late, "hello"}, reads, "hello false"},
			deadlineCase{"chunked: " + name, deadlineSettings{idle: bound},
				[]string{first, "", half + host + "Transfer-Encoding: chunked\r\n\r\n", late,
					"5\r\nhello\r\n0\r\n\r\n"}, reads, "hello false"},
		)
		pieces, want := []string{half + rest, late, "hello"}, "hello false"
		if bounded {
			pieces, want = pieces[:1], " true" // ReadTimeout still applies
		}
		all = append(all, deadlineCase{"ReadTimeout: " + name, deadlineSettings{read: bound, idle: time.Hour}, pieces,
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
			deadlineCase{"after, ReadTimeout: " + name, deadlineSettings{read: bound, idle: time.Hour},
				[]string{get, late, then}, both, " true"},
			deadlineCase{"pipelined: " + name, deadlineSettings{}, []string{get + get + then, late, "hello"}, both,
				"hello false"},
		)
	}
	all = append(all,
		deadlineCase{"both wait", deadlineSettings{}, []string{half + rest, late, "hello"},
			after(readAll, "write past", "read far", "write none"), "hello false"},
		deadlineCase{"read soon", deadlineSettings{read: time.Hour}, []string{half + rest},
			after(readAll, "write far", "read soon"), " true"},
		deadlineCase{"set while reading", deadlineSettings{read: bound, idle: time.Hour},
			[]string{half + rest + "he", late, "llo"}, func(w http.ResponseWriter, r *http.Request) string {
				b := make([]byte, 2)
				_, _ = io.ReadFull(r.Body, b)
				go func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour)) }()
				return string(b) + readAll(w, r)
			}, "hello false"},
	)
	return all
}()

// Read and write deadlines of a handler affect neither each other, nor server timeouts that they do
// not replace, nor the next request. All cases wait concurrently. A case whose handler was called
// only after a timeout of the server says nothing. It is repeated with longer timeouts.
func TestDeadlinesAreIndependent(t *testing.T) {
	var runs []*deadlineRun
	for maker := range makers {
		for _, mode := range []string{"tcp", "unix", "net.Conn", "tls", "ServeTLS"} {
			for i := range deadlineCases {
				runs = append(runs, &deadlineRun{deadlineCase: &deadlineCases[i], maker: maker, mode: mode})
			}
		}
	}
	for limit := bound; len(runs) > 0; limit *= 2 {
		playAll(t, runs, limit)
		var again []*deadlineRun
		for _, r := range runs {
			if n := len(r.bodies); n > 0 && r.bodies[n-1] == r.want {
				continue
			}
			if r.isLate && limit < time.Minute {
				again = append(again, &deadlineRun{deadlineCase: r.deadlineCase, maker: r.maker, mode: r.mode})
				continue
			}
			t.Errorf("%s %s, %s: %q, want %q in the end", r.maker, r.mode, r.name, r.bodies, r.want)
		}
		runs = again
	}
}

// deadlineRun is a case that is played with a server.
type deadlineRun struct {
	*deadlineCase
	maker, mode string
	bodies      []string // of the responses
	isLate      bool     // a handler did not set its deadlines within the timeouts of the server

	mu  sync.Mutex
	set []time.Time // by request: when its handler was called, or has set its last deadline
}

// playAll plays cases concurrently, with a limit instead of bound.
func playAll(t *testing.T, runs []*deadlineRun, limit time.Duration) {
	type key struct {
		maker, mode string
		deadlineSettings
	}
	sites := make(map[key]*site)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, r := range runs {
		k := key{r.maker, r.mode, r.settings.within(limit)}
		s := sites[k]
		if s == nil {
			s = siteOf(t, r.maker, r.mode, &http.Server{
				ReadTimeout: k.read, ReadHeaderTimeout: k.head, IdleTimeout: k.idle,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					i, _ := strconv.Atoi(r.Header.Get("Case"))
					runs[i].stamp(true)
					io.WriteString(w, "<"+runs[i].handler(deadlineWriter{w, runs[i]}, r)+">")
				}),
			})
			sites[k] = s
		}
		wg.Go(func() { r.play(s, i, limit) })
	}
}

// within returns settings with a limit instead of bound.
func (s deadlineSettings) within(limit time.Duration) deadlineSettings {
	for _, d := range []*time.Duration{&s.read, &s.head, &s.idle} {
		if *d == bound {
			*d = limit
		}
	}
	return s
}

// stamp notes the time for a request that begins, or for the last one.
func (d *deadlineRun) stamp(begins bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begins {
		d.set = append(d.set, time.Time{})
	}
	d.set[len(d.set)-1] = time.Now()
}

// deadlineWriter notes when a handler has set a deadline.
type deadlineWriter struct {
	http.ResponseWriter
	run *deadlineRun
}

func (w deadlineWriter) SetReadDeadline(at time.Time) error {
	defer w.run.stamp(false)
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(at)
}

func (w deadlineWriter) SetWriteDeadline(at time.Time) error {
	defer w.run.stamp(false)
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(at)
}

// play sends the pieces of a case and receives the responses.
func (d *deadlineRun) play(s *site, id int, limit time.Duration) {
	start := time.Now() // no timeout begins earlier
	var due []time.Time // by request
	c := s.connect()
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
	for _, p := range d.pieces {
		switch p {
		case late:
			time.Sleep(limit * 3 / 2)
			start = time.Now()
			continue
		case "":
			time.Sleep(bound / 20)
		}
		for range strings.Count(p, " HTTP/1.1\r\n") {
			due = append(due, start.Add(limit))
		}
		text := strings.ReplaceAll(p, host, fmt.Sprintf("%sCase: %d\r\n", host, id))
		if _, err := io.WriteString(c, text); err != nil {
			break // the server has closed the connection
		}
	}
	for range due { // then the end of what is sent does not compete with a timeout
		if body, ok := <-received; ok {
			d.bodies = append(d.bodies, body)
		}
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	for body := range received {
		d.bodies = append(d.bodies, body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, at := range due {
		d.isLate = d.isLate || i >= len(d.set) || d.set[i].After(at)
	}
}

// A handler's read deadline does not affect WriteTimeout; its write deadline replaces it.
func TestWriteDeadlineReplacesWriteTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout time.Duration // WriteTimeout
		order   []string
		least   time.Duration // that the write takes
	}{
		"none":    {bound / 8, nil, 0},
		"read":    {bound / 8, []string{"read far"}, 0},
		"shorter": {time.Hour, []string{"write soon"}, bound / 4},
		"longer":  {bound / 8, []string{"write far", "read far", "write soon"}, bound / 4},
	} {
		for maker := range makers {
			for mode := range modes {
				t.Run(name+"/"+maker+"/"+mode, func(t *testing.T) {
					t.Parallel()
					failed := make(chan string, 1)
					handler := func(w http.ResponseWriter, r *http.Request) {
						start := time.Now()
						got := after(fill, test.order...)(w, r)
						if took := time.Since(start); took < test.least {
							got = fmt.Sprintf("after %v: %s", took, got)
						}
						failed <- got
					}
					// WriteTimeout also limits the handshake. On a busy machine it takes longer.
					for timeout := test.timeout; ; timeout *= 2 {
						set := &http.Server{WriteTimeout: timeout, Handler: http.HandlerFunc(handler)}
						s := siteOf(t, maker, mode, set)
						io.WriteString(s.connect(), get)
						if got := s.awaitFailedWrite(failed); got == "true" {
							return
						} else if got != "" {
							t.Fatal(got)
						}
					}
				})
			}
		}
	}
}

// awaitFailedWrite returns what a handler sends to failed, or "" if the handshake takes too long.
func (s *site) awaitFailedWrite(failed <-chan string) string {
	s.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case got := <-failed:
			return got
		case <-deadline:
			s.Fatalf("nothing ends the write; logged %q", s.logged)
		case <-time.After(bound / 80):
			if strings.Contains(s.logged.String(), "TLS handshake error") {
				return ""
			}
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
					time.Sleep(bound / 20)
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
