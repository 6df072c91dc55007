package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// variables adds the value of a text to responses.
func variables(text conf.Text) *conf.Settings {
	return &conf.Settings{Header: []conf.AddHeader{{Name: "X-Vars", Value: text, Always: true}}}
}

// Variables as targets: upstreams, bound handlers, addresses, and invalid ones.
func TestTargetMayHaveVariables(t *testing.T) {
	to := serve(t, echo)
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to"}})
	h := newFront(t, c, front.Bind("app",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "bound ", r.URL.Path, " ", r.Host)
		})))
	a := serveHandler(t, h)
	for arg, want := range map[string]string{"app": "bound / app", "app/x/y": "bound /x/y app", "APP": "bound / APP"} {
		a.get("/?to="+arg).is(t, 200, want)
	}
	if got := a.get("/?to=" + to + "/z?q"); got.status != 200 ||
		!strings.Contains(got.body, `"URI":"/z?q","Host":"`+to) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, bad := range []string{"", "127.0.0.1:0", "unix:relative", "127.0.0.1:99999", "127.0.0.1:", "a..b:x", ":80",
		"[::1", "/x", "?"} {
		a.get("/?to="+bad).is(t, 500)
	}
	a.get("/?to=a..b").is(t, 502) // no resolver is queried for such a name
	for i := range 300 {          // more than are kept
		a.get(fmt.Sprintf("/?to=127.0.%d.%d:1", i/250, i%250))
	}
	a.get("/?to="+to).is(t, 200)
}

// Variables may have the scheme, with TLS or without.
func TestSchemeMayBeVariable(t *testing.T) {
	plain, secure := serve(t, echo), httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(secure.Close)
	a := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to", Protocol: "scheme"},
			Settings: variables("$proxy_host $proxy_port")},
	), front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "bound ", r.URL.Path, " ", r.Host)
	}))))
	_, port, _ := strings.Cut(plain, ":")
	for to, want := range map[string]string{
		"http://" + plain + "/x":            `"URI":"/x"`,
		secure.URL + "/x":                   `"URI":"/x"`,
		"HTTPS" + secure.URL[len("https"):]: `"URI":"/?to=`,
		"https://app/x":                     "bound /x app",
	} {
		if got := a.get("/?to=" + to); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", to, got.status, got.body)
		}
	}
	testkit.Equal(t, a.get("/?to=http://"+plain).header.Get("X-Vars"), plain+" "+port)
	for to, want := range map[string]int{"": 500, plain: 500, "ftp://" + plain: 500, "//" + plain: 500, "https://" +
		plain: 502, "http://" + secure.Listener.Addr().String(): 400} {
		a.get("/?to="+to).is(t, want)
	}
	if _, err := front.New(oneHost(conf.Location{Path: "/",
		Proxy: &conf.Proxy{To: "http://a", Protocol: "scheme"}})); err == nil ||
		!strings.Contains(err.Error(), "use https or none") {
		t.Error(err)
	}
}

// noLeaks fails if the test leaks goroutines.
func noLeaks(t *testing.T) {
	t.Cleanup(func() {
		ours := func() (found string) {
			b := make([]byte, 4<<20)
			for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
				_, creator, _ := strings.Cut(stack, "created by ")
				if strings.Contains(creator, "client.(*pool)") {
					continue // it watches idle connections
				}
				for _, name := range []string{"tare/front.", "tare/front/internal/upstream.", "tare/front/internal/fetch.", "internal/client."} {
					if strings.Contains(creator, name) {
						found += stack + "\n\n"
					}
				}
			}
			return found
		}
		for late := time.Now().Add(maxWait); ours() != ""; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("goroutines stay:\n%s", ours())
			}
		}
	})
}
