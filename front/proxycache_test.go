package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// cached returns a Config of a host that proxies everything to an upstream, with a cache.
func cached(to string, pc conf.ProxyCache, caches ...conf.Cache) conf.Config {
	pc.Zone = conf.Text(caches[0].Name)
	c := oneHost(conf.Location{
		Path: "/", Proxy: &conf.Proxy{To: conf.Text(to), Cache: &pc},
		Settings: &conf.Settings{Header: []conf.AddHeader{{Name: "X-Cache", Value: "$upstream_cache_status",
			Always: true}}},
	})
	c.Caches = caches
	return c
}

// numbered is an upstream with numbered responses, to which f may add.
func numbered(t testing.TB, f http.HandlerFunc) (address string, server *httptest.Server) {
	server = httptest.NewServer(numberedHandler(f))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), server
}

func numberedHandler(f http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		if f != nil {
			f(w, r)
		}
		fmt.Fprintf(w, "%d %s %s", n.Add(1), r.Host, r.URL.Path)
	}
}

// want fails unless the response has the cache state, the status and the body.
func (r response) want(t testing.TB, state string, status int, body string) {
	t.Helper()
	if r.header.Get("X-Cache") != state || r.status != status || r.body != body {
		t.Errorf("got %s %d %q, want %s %d %q", r.header.Get("X-Cache"), r.status, r.body, state, status, body)
	}
}

// Hosts do not share responses if the upstream receives the host.
func TestCacheKeySeparatesHosts(t *testing.T) {
	to, _ := numbered(t, nil)
	c := cached(to, conf.ProxyCache{}, conf.Cache{Name: "one"})
	c.Hosts[0].Locations[0].Proxy.Header = []conf.Field{{Name: "host", Value: "$host"}}
	a := serveHandler(t, newFront(t, c))
	a.get("/x", "Host", "ignored").want(t, "MISS", 200, "1 front.test /x")
	a.get("http://other.test/x").want(t, "MISS", 200, "2 other.test /x")
	a.get("/x").want(t, "HIT", 200, "1 front.test /x")
}

// Responses to requests with Authorization are stored only if the key has that field.
func TestAuthorizationInKeyAllowsStoring(t *testing.T) {
	for key, state := range map[conf.Text]string{
		"$uri$http_authorization": "HIT", "$uri${HTTP_authorization}x": "HIT", "$uri$http_authorization_kind": "MISS",
		"$uri$http_authorization_kind$http_authorization": "HIT",
	} {
		to, _ := numbered(t, nil)
		a := serveHandler(t, newFront(t, cached(to, conf.ProxyCache{Key: key, Policy: conf.CachePolicy{Lock: true}},
			conf.Cache{Name: "one"})))
		for _, want := range []string{"MISS", state} {
			if got := a.get("/x", "Authorization", "a"); got.header.Get("X-Cache") != want {
				t.Errorf("%s: got %s, want %s", key, got.header.Get("X-Cache"), want)
			}
		}
	}
}

// A response that varies by Host is not used for another host, although the key has none.
func TestVaryByHostSeparatesHosts(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding, host")
	})
	c := cached(to, conf.ProxyCache{Key: "$request_uri"}, conf.Cache{Name: "one", Dir: t.TempDir()})
	c.Hosts[0].Locations[0].Proxy.Header = []conf.Field{{Name: "Host", Value: "$host"}}
	a := serveHandler(t, newFront(t, c))
	for _, state := range []string{"MISS", "HIT"} {
		a.get("/x").want(t, state, 200, "1 front.test /x")
		a.get("http://other.test/x").want(t, state, 200, "2 other.test /x")
	}
}

// Variables show the cache state and the attempts of an upstream that fails.
func TestCacheStateOfFailuresIsLogged(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	to, server := numbered(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age="+r.FormValue("for"))
	})
	c := cached(to, conf.ProxyCache{Skip: []conf.Text{"$arg_skip"}}, conf.Cache{Name: "one"})
	c.Hosts[0].Locations = append(c.Hosts[0].Locations, conf.Location{Match: "=", Path: "/metrics", Metrics: true})
	a := serveHandler(t, newFront(t, c))
	a.get("/x?for=1").want(t, "MISS", 200, "1 "+to+" /x")
	testkit.WaitFor(t, "a stale response",
		func() bool { return a.get("/x?for=1").header.Get("X-Cache") == "EXPIRED" })
	server.Close()
	testkit.WaitFor(t, "the end of freshness", func() bool { return a.get("/x?for=1").status != 200 })
	for path, want := range map[string]string{"/x?for=1": "EXPIRED", "/y": "MISS", "/y?skip=1": "BYPASS"} {
		if r := a.get(path); r.status != 502 || r.header.Get("X-Cache") != want {
			t.Errorf("%s: %d %q, want 502 %s", path, r.status, r.header.Get("X-Cache"), want)
		}
	}
	if r := a.do("POST", "/y", strings.NewReader("x")); r.status != 502 || r.header.Get("X-Cache") != "" {
		t.Errorf("a POST: %d %q", r.status, r.header.Get("X-Cache"))
	}
	if m := a.get("/metrics").body; !strings.Contains(m, `state="BYPASS"} 1`) {
		t.Errorf("the metrics do not count what failed:\n%s", m)
	}
}

// A request may be logged while its cache continues the upstream request: the race detector checks
// this.
func TestLoggingDuringUpdateHasNoRace(t *testing.T) {
	to, _ := numbered(t, nil)
	policy := conf.CachePolicy{Stale: conf.CacheStale{Updating: true}, Background: true,
		Ignore: []string{"Cache-Control"},
		Valid:  []conf.CacheValid{{For: time.Millisecond}}}
	c := cached(to, conf.ProxyCache{Policy: policy}, conf.Cache{Name: "one"})
	c.LogFormats = []conf.LogFormat{{Name: "up", Text: "$upstream_addr $upstream_status"}}
	c.Hosts[0].Locations[0].Settings.Logs = []conf.Log{{Path: filepath.Join(t.TempDir(), "log"), Format: "up"}}
	a := serveHandler(t, newFront(t, c))
	stale := 0
	testkit.WaitFor(t, "stale responses", func() bool {
		if a.get("/x").header.Get("X-Cache") == "STALE" {
			stale++
		}
		return stale == 10
	})
}

// A request purges its key if the texts allow it.
func TestAllowedRequestPurges(t *testing.T) {
	to, _ := numbered(t, nil)
	c := cached(to, conf.ProxyCache{Key: "$host$request_uri", Purge: []conf.Text{"", "0", "$purge"}},
		conf.Cache{Name: "one", Dir: t.TempDir()})
	c.Maps = []conf.Map{{Name: "purge", Source: "$request_method$http_x_secret",
		Cases: []conf.Case{{From: "PURGEknown", To: "1"}}, Default: "0"}}
	c.Hosts[0].Defaults = &conf.Settings{ErrorPages: []conf.ErrorPage{{Statuses: []int{404}, Target: "/404"}}}
	c.Hosts[0].Locations[0].Settings.ErrorPages = c.Hosts[0].Defaults.ErrorPages
	c.Hosts[0].Locations = append(c.Hosts[0].Locations, conf.Location{Match: "=", Path: "/404",
		Steps: []conf.Step{conf.Return{Status: 200, Text: "none\n"}}})
	a := serveHandler(t, newFront(t, c))
	for i, path := range []string{"/a/1", "/a/2", "/b"} {
		a.get(path).want(t, "MISS", 200, fmt.Sprintf("%d %s %s", i+1, to, path))
	}
	a.do("PURGE", "/b", nil).want(t, "", 200, "4 "+to+" /b") // without permission it is forwarded
	purge := func(path string) response { return a.do("PURGE", path, nil, "X-Secret", "known") }
	a.get("/a/1").want(t, "HIT", 200, "1 "+to+" /a/1")
	purge("/a/1").want(t, "", 204, "")
	purge("/a/1").want(t, "", 404, "none\n")
	a.get("/a/1").want(t, "MISS", 200, "5 "+to+" /a/1")
	a.get("/a/2").want(t, "HIT", 200, "2 "+to+" /a/2")
	purge("/a/*").want(t, "", 204, "")
	purge("/a/*").want(t, "", 404, "none\n")
	a.get("/a/2").want(t, "MISS", 200, "6 "+to+" /a/2")
	purge("/").want(t, "", 404, "none\n")
	purge("/*").want(t, "", 204, "")
}

// Cached responses outlive a reload, within the new limits, and a failed reload changes nothing.
func TestCacheOutlivesReload(t *testing.T) {
	to, _ := numbered(t, nil)
	config := conf.Cache{Name: "one", Dir: t.TempDir()}
	h := newFront(t, cached(to, conf.ProxyCache{}, config))
	a := serveHandler(t, h)
	body := "1 " + to + " /x"
	a.get("/x").want(t, "MISS", 200, body)
	must(t, h.Reload(cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}}, config)))
	a.get("/x").want(t, "HIT", 200, body)
	small := config
	small.MaxBytes = 1
	if err := h.Reload(cached(to, conf.ProxyCache{Key: "$nothing"}, small)); err == nil {
		t.Fatal("a key of nothing was taken")
	}
	a.get("/x").want(t, "HIT", 200, body)
	must(t, h.Reload(cached(to, conf.ProxyCache{}, small)))
	var r response
	testkit.WaitFor(t, "the end of the write to disk", func() bool {
		r = a.get("/x")
		return r.header.Get("X-Cache") != "HIT"
	})
	r.want(t, "MISS", 200, "2 "+to+" /x")
}

// A failed reload touches no file of a cache in use, even with other directory levels.
func TestFailedReloadKeepsCacheFiles(t *testing.T) {
	to, _ := numbered(t, nil)
	dir := t.TempDir()
	h := newFront(t, cached(to, conf.ProxyCache{}, conf.Cache{Name: "one", Dir: dir}))
	a := serveHandler(t, h)
	a.get("/x").want(t, "MISS", 200, "1 "+to+" /x")
	files := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		return len(names)
	}
	// one, and the directory of temporary files
	testkit.WaitFor(t, "the files", func() bool { return files() == 2 })
	if err := h.Reload(cached(to, conf.ProxyCache{Key: "$nothing"},
		conf.Cache{Name: "one", Dir: dir, Levels: []int{1}})); err == nil {
		t.Fatal("a key of nothing was taken")
	}
	if n := files(); n != 2 {
		t.Errorf("there are %d files, want 2", n)
	}
	if err := h.Reload(cached(to, conf.ProxyCache{},
		conf.Cache{Name: "one", Dir: dir, Levels: []int{1}})); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Purge("one", "*"); n != 0 || err != nil { // which waits for the search
		t.Errorf("%d responses of other levels were kept, %v", n, err)
	}
	if _, err := h.Purge("two", "x"); err == nil {
		t.Error("a cache was purged that is not there")
	}
	a.get("/x").want(t, "MISS", 200, "2 "+to+" /x")
}
