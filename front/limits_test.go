package front_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func quiet() front.Option { return front.LogErrors(log.New(io.Discard, "", 0)) }

// inFakeTime serves in fake time, without a network.
func inFakeTime(t *testing.T, c conf.Config, h http.HandlerFunc) *front.Handler {
	t.Helper()
	return testkit.Value(front.New(c, front.Bind("app", h), quiet()))(t)
}

func serveInMemory(ctx context.Context, h http.Handler, path string) *recorder {
	w := newRecorder()
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://front.test"+path, nil)
	r.RequestURI, r.RemoteAddr = path, "192.0.2.1:5"
	h.ServeHTTP(w, r)
	return w
}

// Requests within the burst are delayed, but no longer than their client waits.
func TestBurstIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneHost(app(conf.Settings{Requests: []conf.RequestLimit{{Zone: "z", Burst: 5, Delay: 1}}}))
		c.Requests = []conf.Zone{{Name: "z", Key: "$remote_addr", Rate: 2}}
		f := inFakeTime(t, c, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
		start, ended := time.Now(), make(chan time.Duration, 5)
		for range 5 { // the first, one at once, and three delayed
			go func() {
				serveInMemory(t.Context(), f, "/")
				ended <- time.Since(start)
			}()
		}
		for _, want := range []time.Duration{0, 0, 500, 1000, 1500} {
			testkit.Equal(t, <-ended, want*time.Millisecond, "response after")
		}
		start = time.Now()
		_ = serveInMemory(t.Context(), f, "/")
		_ = serveInMemory(t.Context(), f, "/")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if w := serveInMemory(ctx, f, "/gone"); w.status != 0 || w.body.Len() != 0 {
			t.Errorf("the client has left, and the response is %d", w.status)
		}
		_ = f.Close()
	})
}

// A rejection with 401 is delayed, but not longer than its client waits.
func TestUnauthorizedRequestIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneHost(app(conf.Settings{AuthDelay: 2 * time.Second, AuthRequest: &conf.AuthRequest{URI: "/auth"}}),
			conf.Location{Path: "/auth", Steps: []conf.Step{conf.Return{Status: 401}}})
		f := inFakeTime(t, c, func(http.ResponseWriter, *http.Request) {})
		start := time.Now()
		if w := serveInMemory(t.Context(), f, "/"); w.status != 401 || time.Since(start) != 2*time.Second {
			t.Errorf("%d after %v", w.status, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if w := serveInMemory(ctx, f, "/"); w.status != 0 || time.Since(start) != time.Second {
			t.Errorf("the client has left after a second: %d after %v", w.status, time.Since(start))
		}
		_ = f.Close()
	})
}

// limit_conn bounds concurrent requests by key, and every end of a request makes room.
func TestConnectionsAreLimitedByKey(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	handler := func(w http.ResponseWriter, r *http.Request) {
		inside <- true
		<-leave
		if r.FormValue("panic") != "" {
			panic(http.ErrAbortHandler)
		}
	}
	app := serveHandler(t, http.HandlerFunc(handler))
	theirs, us := besideNginx(t, "limit_conn_zone $arg_k zone=n:1m; limit_conn_zone $arg_all zone=all:1m;", fmt.Sprintf(
		"limit_conn n 2; limit_conn all 3; limit_conn_status 429; location / { proxy_pass http://unix:%s; }", app.socket))
	for _, a := range []*testClient{theirs, us} {
		ended := make(chan bool, 4)
		start := func(path string) {
			go func() {
				r, err := a.client.Get("http://front.test" + path)
				if err == nil {
					r.Body.Close()
				}
				ended <- true
			}()
			<-inside
		}
		start("/?k=1&all=1")
		start("/?k=1&all=1&panic=1")
		testkit.Equal(t, a.get("/?k=1&all=1").status, 429, "a third")
		start("/?k=2&all=1")
		testkit.Equal(t, a.get("/?k=3&all=1").status, 429, "a fourth of all")
		start("/") // it has no key
		for range 4 {
			leave <- true
		}
		for range 4 {
			<-ended
		}
		for range 3 { // and none is leaked
			start("/?k=3&all=1")
			leave <- true
			<-ended
		}
	}
}

// A body that is too long gets 413, whatever a bound handler does with the error. Package corpus
// compares limits with nginx.
func TestTooLongBodyGets413(t *testing.T) {
	us := frontOf(t, conf.Settings{MaxBody: 100}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "bad body", http.StatusBadRequest)
		}
	})
	for n, want := range map[int]int{100: 200, 101: 413, 1 << 20: 413} {
		body := strings.Repeat("x", n)
		for _, r := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
			if got := us.do("POST", "/", r); got.status != want {
				t.Errorf("%d bytes: %d, want %d", n, got.status, want)
			}
		}
	}
}

// A request with a key that is too long is not limited, and both kinds of limits log it.
func TestTooLongLimitKeysAreNotLimited(t *testing.T) {
	var output bytes.Buffer
	zones := strings.ReplaceAll("limit_req_zone KEY zone=requests:1m rate=1r/m; limit_conn_zone KEY zone=conns:1m;", "KEY",
		strings.Repeat("$arg_a", 10))
	h := newFront(t, parseConf(t, zones, "location / { empty_gif; limit_req zone=requests; limit_conn conns 1; }"),
		front.LogErrors(log.New(&output, "", 0)))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/?a="+strings.Repeat("x", 7000), nil))
		testkit.Equal(t, w.Code, http.StatusOK, "the response")
	}
	for _, zone := range []string{"requests", "conns"} {
		if want := fmt.Sprintf("the key of the zone %q is too long: 70000 bytes",
			zone); strings.Count(output.String(), want) != 2 {
			t.Errorf("the log has %d bytes, and not twice %q", output.Len(), want)
		}
	}
}
