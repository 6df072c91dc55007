package front_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/dnstest"
)

// container is a server that moves from one loopback address to another, like a container that is
// created again. Its responses are its address.
type container struct {
	*restarting
	port string
}

func startContainer(t testing.TB, address, port string) *container {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		fmt.Fprint(w, host)
	})
	r := startRestarting(t, net.JoinHostPort(address, port), h)
	_, port, _ = net.SplitHostPort(r.addr)
	return &container{r, port}
}

// move ends the server, and starts it at another address.
func (c *container) move(address string) {
	c.t.Helper()
	c.restart(net.JoinHostPort(address, c.port))
}

// until repeats a request until the response is want. Others must have status 200, or may fail.
func (a *testClient) until(path, want string, mayFail bool) {
	a.t.Helper()
	testkit.WaitFor(a.t, path+" to be "+want, func() bool {
		got := a.get(path)
		if got.status != http.StatusOK && !mayFail {
			a.t.Fatalf("status %d", got.status)
		}
		return got.status == http.StatusOK && got.body == want
	})
}

// A name from a variable is resolved by the resolver, and followed by its TTL, as by nginx.
func TestVariablesAreResolvedAsByNginx(t *testing.T) {
	s := dnstest.Start(t)
	app := startContainer(t, "127.0.0.2", "0")
	other := startContainer(t, "127.0.0.4", "0") // stays, so that only the TTL shows a change
	conf := fmt.Sprintf(`resolver %s ipv6=off; resolver_timeout 5s;
		location = /app { set $to app.example; proxy_pass http://$to:%s; }
		location = /path { proxy_pass http://app.example:%s/x$is_args$args; }
		location = /unknown { set $to unknown.example; proxy_pass http://$to:1; }
		location = /fails { set $to fails.example; proxy_pass http://$to:1; }
		location = /other { set $to other.example; proxy_pass http://$to:%s; }
		location = /valid { resolver %s valid=1s ipv6=off; set $to long.example; proxy_pass http://$to:%s; }`,
		s.Addr(), app.port, app.port, other.port, s.Addr(), other.port)
	s.Set("app.example", dnstest.Response{Addresses: []string{"127.0.0.2"}, TTL: 1})
	s.Set("other.example", dnstest.Response{Addresses: []string{"127.0.0.4"}, TTL: 1})
	s.Set("long.example", dnstest.Response{Addresses: []string{"127.0.0.4"}, TTL: 3600})
	s.Set("fails.example", dnstest.Response{Code: dnsmessage.RCodeServerFailure})
	theirs, _ := serveNginx(t, "", conf)
	ours := serveConf(t, "", conf)
	for name, a := range map[string]*testClient{"nginx": theirs, "tare": ours} {
		for path, want := range map[string]int{
			"/app": 200, "/path": 200, "/unknown": 502, "/fails": 502, "/other": 200, "/valid": 200,
		} {
			testkit.Equal(t, a.get(path).status, want, name, path)
		}
	}
	app.move("127.0.0.3")
	s.Set("app.example", dnstest.Response{Addresses: []string{"127.0.0.3"}, TTL: 1})
	ours.until("/app", "127.0.0.3", false) // where nginx responds 502 until the TTL has passed
	theirs.until("/app", "127.0.0.3", true)

	startContainer(t, "127.0.0.5", other.port)
	for _, name := range []string{"other.example", "long.example"} {
		s.Set(name, dnstest.Response{Addresses: []string{"127.0.0.5"}, TTL: 1})
	}
	for _, a := range []*testClient{theirs, ours} {
		a.until("/other", "127.0.0.5", false)
		a.until("/valid", "127.0.0.5", false)
	}
}

// A server with resolve is followed by its TTL, and at once if connections fail: no request gets an
// error. Names that do not resolve at first are tried later.
func TestServersWithResolveAreFollowed(t *testing.T) {
	s := dnstest.Start(t)
	app := startContainer(t, "127.0.0.2", "0")
	s.Set("app.example", dnstest.Response{Addresses: []string{"127.0.0.2"}, TTL: 3600})
	s.Set("late.example", dnstest.Response{Code: dnsmessage.RCodeNameError})
	a := serveConf(t, fmt.Sprintf(`resolver %s ipv6=off; upstream app { zone app 64k; server app.example:%s resolve; }
		upstream late { server late.example:%s resolve; }`, s.Addr(), app.port, app.port),
		`location /app { proxy_pass http://app; } location /late { proxy_pass http://late; }`)
	a.get("/late").is(t, http.StatusBadGateway)
	a.until("/app", "127.0.0.2", false)
	for _, address := range []string{"127.0.0.3", "127.0.0.2", "127.0.0.3"} {
		app.move(address)
		s.Set("app.example", dnstest.Response{Addresses: []string{address}, TTL: 3600})
		a.get("/app").is(t, 200, address)
	}
	s.Set("late.example", dnstest.Response{Addresses: []string{"127.0.0.3"}, TTL: 1})
	a.until("/late", "127.0.0.3", true)
}

// While DNS fails, old addresses stay in use, and one line of the log reports it. A reload changes
// nothing about that.
func TestOldAddressesStayWhileDNSFails(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	s := dnstest.Start(t)
	app := startContainer(t, "127.0.0.2", "0")
	good := dnstest.Response{Addresses: []string{"127.0.0.2"}}
	s.Set("app.example", good)
	c := parseConf(t, fmt.Sprintf(`resolver %s ipv6=off; upstream app { server app.example:%s resolve; }`, s.Addr(),
		app.port), `location / { proxy_pass http://app; }
		location /var { set $to app.example; proxy_pass http://$to:`+app.port+`; }`)
	var lines testkit.Log
	failures := func() int { return strings.Count(lines.String(), "cannot resolve app.example") }
	h := newFront(t, c, front.LogErrors(log.New(&lines, "", 0)))
	a := serveHandler(t, h)
	both := func() {
		for _, path := range []string{"/", "/var"} {
			a.until(path, "127.0.0.2", false)
		}
	}
	both()
	for _, broken := range []dnstest.Response{
		{Silent: true}, {}, {Code: dnsmessage.RCodeNameError}, {Code: dnsmessage.RCodeServerFailure},
	} {
		s.Set("app.example", broken)
		before, _ := s.Queries("app.example")
		testkit.WaitFor(t, "a query", func() bool {
			for _, path := range []string{"/", "/var"} {
				a.get(path).is(t, 200, "127.0.0.2")
			}
			n, _ := s.Queries("app.example")
			return n > before
		})
	}
	before := failures()
	testkit.Must(t, h.Reload(c))
	testkit.WaitFor(t, "a line of the new configuration", func() bool {
		both()
		return failures() > before
	})
	testkit.Between(t, before, 1, 2, "lines, of each group")
	testkit.Between(t, failures(), 2, 4, "lines, of each group and configuration")
	s.Set("app.example", good)
	testkit.WaitFor(t, "the line about the end", func() bool {
		a.until("/var", "127.0.0.2", false)
		return strings.Contains(lines.String(), "can be resolved again")
	})
}

// Requests for a name that is being resolved share one lookup, and one of them that ends does not
// end it.
func TestRequestsShareLookupsOnDemand(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for timeouts")
	const requests = 20
	s := dnstest.Start(t)
	s.Set("app.example", dnstest.Response{Silent: true})
	_, port, err := net.SplitHostPort(serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	testkit.Must(t, err)
	a := serveConf(t, fmt.Sprintf("resolver %s ipv6=off;", s.Addr()), "location / { proxy_pass http://$arg_host; }")
	url := "http://front.test/?host=app.example:" + port
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan string, requests)
	get := func() {
		got, err := a.attempt("GET", url, nil)
		testkit.Check(t, err)
		results <- fmt.Sprint(got.status, got.body)
	}
	first := testkit.Value(http.NewRequestWithContext(ctx, "GET", url, nil))(t)
	go func() {
		if _, err := a.client.Do(first); err != nil {
			results <- "no response"
		}
	}()
	testkit.WaitFor(t, "a query", func() bool { n, _ := s.Queries("app.example"); return n > 0 })
	for range requests - 1 {
		go get()
	}
	time.Sleep(50 * time.Millisecond) // most of them have arrived; if not, the test succeeds nevertheless
	cancel()
	testkit.Equal(t, testkit.Receive(t, results), "no response", "the canceled request")
	s.Set("app.example", dnstest.Response{Addresses: []string{"127.0.0.1"}, TTL: 60})
	for range requests - 1 {
		testkit.Equal(t, testkit.Receive(t, results), "200ok")
	}
	n, _ := s.Queries("app.example")
	testkit.Between(t, n, 1, requests/2, "queries for", requests, "requests")
	url = "http://front.test/?host=APP.Example:" + port
	go get()
	got := testkit.Receive(t, results)
	if again, _ := s.Queries("app.example"); got != "200ok" || again != n {
		t.Errorf("the name in another case: %s, %d queries", got, again-n)
	}
}
