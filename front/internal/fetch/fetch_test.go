package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/testkit"
)

// observer records what becomes of a Request.
type observer struct {
	mu       sync.Mutex
	statuses []int
	failed   []string // URLs
	interim  []int
}

func (o *observer) Interim(status int, _ http.Header) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.interim = append(o.interim, status)
}

func (o *observer) Responded(status int, began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if began.IsZero() {
		status = -1
	}
	o.statuses = append(o.statuses, status)
}

func (o *observer) Failed(url string, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = append(o.failed, url)
}

// requested is a Request, and what sends it.
type requested struct {
	*fetch.Request
	by *fetch.Upstream
}

// request makes a request for /a to servers.
func request(t *testing.T, o *observer, next conf.NextUpstream, servers ...string) requested {
	t.Helper()
	config := conf.Upstream{Name: "group"}
	for _, addr := range servers {
		config.Servers = append(config.Servers, conf.Server{Addr: addr})
	}
	peers, err := upstream.New(config, new(upstream.State), upstream.Options{})
	testkit.Must(t, err)
	g := &fetch.Group{Name: "group", Peers: peers, Transport: fetch.NewTransport(fetch.KeepAliveOf(peers.Config()))}
	t.Cleanup(g.Close)
	u := &fetch.Upstream{ConnectTimeout: time.Minute, SendTimeout: time.Minute, ReadTimeout: time.Minute,
		Next: next, Pending: new(fetch.Pending)}
	r := &fetch.Request{
		Method: "GET", Target: "/a", Host: "x", Header: make(http.Header), IsRepeatable: true,
		Observer: o, Group: g, Turn: peers.Turn("", netip.Addr{}),
	}
	r.Attempts.IsKept = true
	return requested{r, u}
}

// serve starts a server, and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// closedPort returns an address that rejects connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// fetched describes a response, or an error.
func fetched(t *testing.T, r requested) string {
	t.Helper()
	resp, err := r.by.Do(t.Context(), r.Request)
	var failed *fetch.Error
	switch {
	case errors.As(err, &failed):
		return fmt.Sprintf("error %d for %d", failed.Kind, failed.Status)
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body), " ", err)
}

// Another server is tried as far as Next allows, and the Observer learns of each attempt.
func TestNextServerIsTried(t *testing.T) {
	good := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, r.URL.Path) })
	busy := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	garbage := rawServer(t, "garbage\r\n\r\n")
	dead := closedPort(t)
	for _, c := range []struct {
		servers  string
		next     conf.NextUpstream
		post     bool
		want     string
		statuses string // of the attempts
		records  string
	}{
		{servers: good, want: "200 x/a <nil>", statuses: "[200]", records: "200"},
		{servers: dead + " " + good, next: conf.NextUpstream{Error: true}, want: "200 x/a <nil>",
			statuses: "[0 200]", records: "502, 200"},
		{servers: dead + " " + good, want: fmt.Sprintf("error %d for 502", fetch.Failure), statuses: "[0]",
			records: "502"},
		{servers: busy + " " + good, next: conf.NextUpstream{Statuses: []int{503}}, want: "200 x/a <nil>",
			statuses: "[503 200]", records: "503, 200"},
		{servers: busy + " " + good, next: conf.NextUpstream{Statuses: []int{503}}, post: true, want: "503  <nil>",
			statuses: "[503]", records: "503"},
		{servers: garbage, next: conf.NextUpstream{Error: true}, statuses: "[0]", records: "502",
			want: fmt.Sprintf("error %d for 502", fetch.InvalidHeader)},
		{servers: garbage + " " + good, next: conf.NextUpstream{InvalidHeader: true}, want: "200 x/a <nil>",
			statuses: "[0 200]", records: "502, 200"},
	} {
		from := new(observer)
		r := request(t, from, c.next, strings.Fields(c.servers)...)
		r.IsRepeatable = !c.post
		if got := fetched(t, r); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
		records := r.Attempts.List(func(s *fetch.Record) string { return fmt.Sprint(s.Status) })
		if got := fmt.Sprint(from.statuses); got != c.statuses || records != c.records {
			t.Errorf("%+v: statuses %s, records %s", c, got, records)
		}
		if want := strings.Count(c.statuses, "[0"); len(from.failed) != want {
			t.Errorf("%+v: failed %v", c, from.failed)
		}
	}
}

// rawServer responds to each connection with a text.
func rawServer(t *testing.T, text string) string {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		if _, err := nc.Read(make([]byte, 4<<10)); err == nil {
			_, _ = io.WriteString(nc, text)
		}
	})
}

// Interim responses reach the Observer before the final one.
func TestInterimResponsesAreReported(t *testing.T) {
	from := new(observer)
	r := request(t, from, conf.NextUpstream{}, rawServer(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
	if got := fetched(t, r); got != "200 hi <nil>" || fmt.Sprint(from.interim) != "[103]" {
		t.Errorf("%q, interim %v", got, from.interim)
	}
}

// The client's departure ends a request, and so does Expired. Neither is a failure of the server.
func TestCanceledRequestIsNoFailure(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	addr := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-leave
	})
	defer close(leave)
	for _, isClients := range []bool{true, false} {
		from := new(observer)
		r := request(t, from, conf.NextUpstream{Error: true, Timeout: true}, addr)
		canceled, cancel := context.WithCancel(t.Context())
		ctx := canceled
		if !isClients {
			ctx, r.by.Expired = t.Context(), canceled
		}
		go func() {
			<-arrived
			cancel()
		}()
		_, err := r.by.Do(ctx, r.Request)
		var failed *fetch.Error
		if !errors.As(err, &failed) || failed.Kind != fetch.Canceled || from.statuses != nil || from.failed != nil {
			t.Errorf("%v, statuses %v, failed %v", err, from.statuses, from.failed)
		}
	}
}
