package front_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// withAuthRequest returns a Config whose location / makes a subrequest to /auth and is served by
// content.
func withAuthRequest(auth, content conf.Proxy, set ...conf.Set) conf.Config {
	return oneHost(
		conf.Location{Match: "=", Path: "/auth", Internal: true, Proxy: &auth, Settings: &conf.Settings{}},
		conf.Location{Path: "/", Proxy: &content,
			Settings: &conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/auth", Set: set}}},
	)
}

// respondAsWanted responds with the status in X-Want, by default 200.
func respondAsWanted(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if want := r.Header.Get("X-Want"); want != "" {
		_, _ = fmt.Sscan(want, &status)
	}
	w.Header().Set("Www-Authenticate", "Bearer")
	w.Header().Add("Www-Authenticate", "Digest")
	w.Header().Set("X-User", r.Header.Get("X-As"))
	w.WriteHeader(status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = io.WriteString(w, "of no interest")
	}
}

// The meaning of a subrequest's status is the same for an upstream and for a bound handler.
func TestAuthRequestStatusDecides(t *testing.T) {
	user := conf.Set{Name: "user", Value: "$upstream_http_x_user"}
	content := conf.Proxy{To: "app", Header: []conf.Field{{Name: "X-User", Value: "$user"}}}
	for name, to := range map[string]string{"an upstream": serve(t, respondAsWanted), "bound": "judge"} {
		c := withAuthRequest(conf.Proxy{To: conf.Text(to), Hide: []string{"WWW-Authenticate", "X-User"}}, content,
			user)
		a := serveHandler(t, newFront(t, c, quiet(), front.Bind("judge", http.HandlerFunc(respondAsWanted)),
			front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Header.Get("X-User"))
			}))))
		for want, status := range map[string]int{"": 200, "200": 200, "204": 200, "206": 200, "299": 200, "401": 401,
			"403": 403, "302": 500, "304": 500, "400": 500, "404": 500, "499": 500, "500": 500, "503": 500} {
			got := a.get("/x", "X-Want", want, "X-As", "ann")
			challenges := 0
			if status == http.StatusUnauthorized {
				challenges = 2
			}
			if n := len(got.header["Www-Authenticate"]); got.status != status || status == 200 && got.body != "ann" ||
				n != challenges {
				t.Errorf("%s, %s: %d %q with %d challenges, want %d", name, want, got.status, got.body, n, status)
			}
		}
		if got := a.get("/auth"); got.status != 404 {
			t.Errorf("%s: a client requests /auth: %d", name, got.status)
		}
	}
}

// The subrequest has its own header, and the content gets the client's complete request.
func TestAuthRequestHasOwnHeader(t *testing.T) {
	type seen struct{ method, uri, length, field, body string }
	var mu sync.Mutex
	var received []seen
	see := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received = append(received,
			seen{r.Method, r.RequestURI, fmt.Sprint(r.ContentLength, r.Header["Content-Length"]),
				r.Header.Get("X-Field") + r.Header.Get("If-None-Match"), string(body)})
		r.Header.Set("X-Field", "changed")
		_, _ = w.Write(make([]byte, 1<<20)) // it is discarded
	}
	text := strings.Repeat("a body", 20000)
	for name, pair := range map[string][2]conf.Proxy{
		"upstreams":  {{To: conf.Text(serve(t, see))}, {To: conf.Text(serve(t, see))}},
		"streamed":   {{To: conf.Text(serve(t, see))}, {To: conf.Text(serve(t, see)), StreamRequest: true}},
		"bound":      {{To: "see"}, {To: "see"}},
		"bound auth": {{To: "see"}, {To: conf.Text(serve(t, see))}},
	} {
		a := serveHandler(t, newFront(t, withAuthRequest(pair[0], pair[1]), quiet(),
			front.Bind("see", http.HandlerFunc(see))))
		for _, sized := range []bool{true, false} {
			received = nil
			body := io.Reader(strings.NewReader(text))
			if !sized {
				body = io.MultiReader(body)
			}
			got := a.do("POST", "/x?y", body, "X-Field", "client", "If-None-Match", "*")
			if len(received) != 2 || got.status != 200 || len(got.body) != 1<<20 {
				t.Fatalf("%s: %d after %d requests", name, got.status, len(received))
			}
			if want := (seen{"GET", "/auth", "0 []", "client", ""}); received[0] != want {
				t.Errorf("%s: the auth request was %+v, want %+v", name, received[0], want)
			}
			if received[1].length = ""; received[1] != (seen{"POST", "/x?y", "", "client*", text}) {
				t.Errorf("%s: the content received %.200v", name, received[1])
			}
		}
		received = nil
		a.get("/x", "X-Field", "client")
		if len(received) != 2 || received[1].field != "client" {
			t.Errorf("%s, without a body: %.200v", name, received)
		}
	}
}

// The subrequest shares the request's variables, and its variables show the client.
func TestAuthRequestSharesVariables(t *testing.T) {
	c := withAuthRequest(conf.Proxy{To: conf.Text(serve(t, respondAsWanted))}, conf.Proxy{To: "app"},
		conf.Set{Name: "a", Value: "$request_method $request_uri $uri [$args] $http_if_none_match $content_length $status"},
		conf.Set{Name: "b", Value: "$a $inner"}, conf.Set{Name: "args", Value: "new"},
		conf.Set{Name: "c", Value: "$request_id"})
	c.Hosts[0].Locations[0].Steps = []conf.Step{conf.Set{Name: "inner", Value: "$uri"},
		conf.Set{Name: "outer", Value: "$outer again"}}
	c.Hosts[0].Locations[1].Steps = []conf.Step{conf.Set{Name: "outer", Value: "once"}}
	c.Hosts[0].Locations[1].Settings.Header = []conf.AddHeader{{Name: "B", Value: "$b"},
		{Name: "Rest", Value: "$args $outer $upstream_http_x_user"}, {Name: "Same", Value: "$c $request_id"}}
	a := serveHandler(t, newFront(t, c, quiet(),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	got := a.do("PUT", "/x?y=1", strings.NewReader("abc"), "If-None-Match", "*", "X-As", "ann")
	if want := "PUT /x?y=1 /auth [] * 3 200 /auth"; got.header.Get("B") != want {
		t.Errorf("%q, want %q", got.header.Get("B"), want)
	}
	if want := "new once again"; strings.TrimSpace(got.header.Get("Rest")) != want {
		t.Errorf("%q, want %q", got.header.Get("Rest"), want)
	}
	if one, other, _ := strings.Cut(got.header.Get("Same"), " "); one == "" || one != other {
		t.Errorf("the identity of the request is %q and then %q", one, other)
	}
}

// A cache stores the response to a subrequest like any other.
func TestAuthRequestResponseIsCached(t *testing.T) {
	var n atomic.Int64
	auth := conf.Proxy{To: conf.Text(serve(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
		respondAsWanted(w, r)
	})), Cache: &conf.ProxyCache{Zone: "z", Key: "$http_x_as $http_x_want"}}
	c := withAuthRequest(auth, conf.Proxy{To: "app"}, conf.Set{Name: "user", Value: "$upstream_http_x_user"},
		conf.Set{Name: "state", Value: "$upstream_cache_status"})
	c.Caches = []conf.Cache{{Name: "z"}}
	c.Hosts[0].Locations[1].Settings.Header = []conf.AddHeader{{Name: "X-User", Value: "$user $state", Always: true}}
	a := serveHandler(t, newFront(t, c, quiet(), front.CachesInMemory(),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	misses := int64(0)
	for i, want := range []string{"ann MISS", "ann HIT", "ann HIT", "bob MISS", "bob HIT"} {
		fields := []string{"X-As", want[:3]}
		if i == 2 {
			fields = append(fields, "If-None-Match", "*", "Range", "bytes=100-")
		}
		// A subrequest does not wait until its response is stored, so the next request may miss, too.
		mayMiss, deadline := i == 1 || i == 4, time.Now().Add(time.Minute)
		for again := true; again; {
			got := a.get("/", fields...)
			user := got.header.Get("X-User")
			isMiss := strings.HasSuffix(user, " MISS")
			if isMiss {
				misses++
			}
			again = isMiss && mayMiss && time.Now().Before(deadline)
			if !again && (got.status != 200 || user != want) {
				t.Errorf("%d: %d %q, want %q", i, got.status, user, want)
			}
		}
	}
	if n.Load() != misses {
		t.Errorf("it received %d requests, want %d", n.Load(), misses)
	}
}

// Rules and passwords are checked before the subrequest, and with "any" each of them counts.
func TestAuthRequestCountsWithSatisfyAny(t *testing.T) {
	s := conf.Settings{SatisfyAny: true, Access: []conf.AccessRule{{Deny: true}},
		AuthRequest: &conf.AuthRequest{URI: "/auth"}, Password: &conf.Password{Realm: "r", File: "/nowhere/at/all"}}
	var received atomic.Int64
	c := oneHost(app(s), conf.Location{Path: "/auth", Internal: true, Proxy: &conf.Proxy{To: "judge"}})
	a := serveHandler(t, newFront(t, c, quiet(),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		front.Bind("judge", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			received.Add(1)
			respondAsWanted(w, r)
		}))))
	for want, status := range map[string]int{"200": 200, "401": 401, "403": 401, "500": 500} {
		got := a.get("/x", "X-Want", want)
		if n := len(got.header["Www-Authenticate"]); got.status != status ||
			n != map[string]int{"200": 0, "401": 3, "403": 1, "500": 1}[want] {
			t.Errorf("%s: %d with %d challenges", want, got.status, n)
		}
	}
	if received.Load() != 4 {
		t.Errorf("it received %d requests", received.Load())
	}
}

// Neither a panic of the handler nor the client's departure grants access, and each logs one line.
func TestFailedAuthRequestDeniesAccess(t *testing.T) {
	entered := make(chan struct{}, 1)
	wait := func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	}
	for name, auth := range map[string]conf.Proxy{"499": {To: conf.Text(serve(t, wait))}, "500": {To: "judge"}} {
		c := withAuthRequest(auth, conf.Proxy{To: "app"})
		c.LogFormats = []conf.LogFormat{{Name: "f", Text: "$uri $status"}}
		file := t.TempDir() + "/log"
		for i := range c.Hosts[0].Locations {
			c.Hosts[0].Locations[i].Settings.Logs = []conf.Log{{Path: file, Format: "f"}}
		}
		a := serveHandler(t, newFront(t, c, quiet(),
			front.Bind("app", http.HandlerFunc(func(http.ResponseWriter,
				*http.Request) {
				t.Error("access was granted")
			})),
			front.Bind("judge", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wait(w, r)
				panic(http.ErrAbortHandler)
			}))))
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/gone", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-entered
			leave()
		}()
		if resp, err := a.client.Do(r); err == nil {
			t.Errorf("a response: %v", resp)
		}
		if lines := awaitLines(t, file, 1); len(lines) != 1 || lines[0] != "/gone "+name {
			t.Errorf("logged %q, want %s", lines, name)
		}
	}
}

// Places in the limits of the auth location are released with the request.
func TestAuthRequestLimitsAreReleased(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	c := withAuthRequest(conf.Proxy{To: "judge"}, conf.Proxy{To: "app"})
	c.Conns = []conf.Zone{{Name: "z", Key: "$host"}}
	c.Hosts[0].Locations[0].Settings.Conns = []conf.ConnLimit{{Zone: "z", Max: 1}}
	a := serveHandler(t, newFront(t, c, quiet(), front.Bind("judge", http.HandlerFunc(respondAsWanted)),
		front.Bind("app", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				close(entered)
				<-leave
			}
		}))))
	var one sync.WaitGroup
	one.Go(func() { a.get("/wait") })
	<-entered
	if got := a.get("/"); got.status != 500 {
		t.Errorf("beside another: %d", got.status)
	}
	close(leave)
	one.Wait()
	if got := a.get("/"); got.status != 200 {
		t.Errorf("alone: %d", got.status)
	}
}

// Subrequests of concurrent requests share nothing.
func TestConcurrentAuthRequestsShareNothing(t *testing.T) {
	c := withAuthRequest(conf.Proxy{To: conf.Text(serve(t, respondAsWanted))},
		conf.Proxy{To: conf.Text(serve(t, echo)), Header: []conf.Field{{Name: "X-User", Value: "$user"}}},
		conf.Set{Name: "user", Value: "$upstream_http_x_user"})
	a := serveHandler(t, newFront(t, c, quiet()))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				name := fmt.Sprint(i, "-", n)
				if got := a.do("POST", "/", strings.NewReader(name), "X-As", name); got.status != 200 ||
					!strings.Contains(got.body, fmt.Sprintf(`"X-User":[%q]`, name)) {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			}
		})
	}
	all.Wait()
}

func TestInvalidAuthRequestIsRejected(t *testing.T) {
	for want, a := range map[string]conf.AuthRequest{
		`auth_request: invalid path "auth"`:           {URI: "auth"},
		"variable $uri cannot be set":                 {URI: "/auth", Set: []conf.Set{{Name: "uri", Value: "x"}}},
		"auth_request_set $a: unknown variable $nosu": {URI: "/auth", Set: []conf.Set{{Name: "a", Value: "$nosuch"}}},
	} {
		if _, err := front.New(oneHost(conf.Location{Path: "/", Settings: &conf.Settings{AuthRequest: &a}}),
			quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := oneHost(conf.Location{Path: "/", Steps: []conf.Step{conf.Return{Status: 200, Text: "[$a]"}},
		Settings: &conf.Settings{AuthRequest: &conf.AuthRequest{Set: []conf.Set{{Name: "a", Value: "x"}}}}})
	if got := serveHandler(t, newFront(t, c)).get("/"); got.status != 200 || got.body != "[]" {
		t.Errorf("without a subrequest: %d %q", got.status, got.body)
	}
}

// AuthRequest works over HTTP/2, also if the response is observed.
func TestAuthRequestWorksOverHTTP2(t *testing.T) {
	for _, settings := range []conf.Settings{{}, {SendTimeout: time.Minute}} {
		c := withAuthRequest(conf.Proxy{To: conf.Text(serve(t, respondAsWanted))},
			conf.Proxy{To: conf.Text(serve(t, echo))})
		settings.AuthRequest = c.Hosts[0].Locations[1].Settings.AuthRequest
		c.Hosts[0].Locations[1].Settings = &settings
		s := httptest.NewUnstartedServer(newFront(t, c, quiet()))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		for want, status := range map[string]int{"200": 200, "401": 401, "500": 500} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("a body"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Want", want)
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != status ||
				strings.Contains(string(body), `"a body"`) != (status == 200) {
				t.Errorf("%s: HTTP/%d %d %q %v", want, resp.ProtoMajor, resp.StatusCode, body, err)
			}
		}
	}
}

// Access is denied if a regular expression in a variable of the subrequest exceeds its steps.
func TestRegexTimeoutInAuthRequestDeniesAccess(t *testing.T) {
	c := withAuthRequest(conf.Proxy{To: "judge"}, conf.Proxy{To: "app"}, conf.Set{Name: "a", Value: "$kind"})
	c.Maps = []conf.Map{{Name: "kind", Source: "$upstream_http_x_user",
		Cases: []conf.Case{{From: `~^(?=(\w+\s?)*$)`, To: "some"}}}}
	a := serveHandler(t, newFront(t, c, quiet(), front.Bind("judge", http.HandlerFunc(respondAsWanted)),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	for user, status := range map[string]int{"ann": 200, strings.Repeat("a", 60) + "!": 500} {
		if got := a.get("/", "X-As", user); got.status != status {
			t.Errorf("%s: %d, want %d", user, got.status, status)
		}
	}
}

// The head of the response decides: its body is not awaited.
func TestAuthRequestDoesNotAwaitBody(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	a := serveHandler(t, newFront(t, withAuthRequest(conf.Proxy{To: conf.Text(to), ReadTimeout: time.Second},
		conf.Proxy{To: "app"}), quiet(),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	if got := a.get("/"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
