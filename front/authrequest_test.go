package front_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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
		a := serveHandler(t, newFront(t, c,
			front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("access was granted")
			})),
			front.Bind("judge", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wait(w, r)
				panic(http.ErrAbortHandler)
			}))))
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/gone", nil)
		must(t, err)
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
	a := serveHandler(t, newFront(t, c, front.Bind("judge", http.HandlerFunc(respondAsWanted)),
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

// AuthRequest works over HTTP/2, also if the response is observed.
func TestAuthRequestWorksOverHTTP2(t *testing.T) {
	for _, settings := range []conf.Settings{{}, {SendTimeout: time.Minute}} {
		c := withAuthRequest(conf.Proxy{To: conf.Text(serve(t, respondAsWanted))},
			conf.Proxy{To: conf.Text(serve(t, echo))})
		settings.AuthRequest = c.Hosts[0].Locations[1].Settings.AuthRequest
		c.Hosts[0].Locations[1].Settings = &settings
		s := httptest.NewUnstartedServer(newFront(t, c))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		for want, status := range map[string]int{"200": 200, "401": 401, "500": 500} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("a body"))
			must(t, err)
			r.Header.Set("X-Want", want)
			resp, err := s.Client().Do(r)
			must(t, err)
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
	a := serveHandler(t, newFront(t, c, front.Bind("judge", http.HandlerFunc(respondAsWanted)),
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
		conf.Proxy{To: "app"}),
		front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	if got := a.get("/"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
