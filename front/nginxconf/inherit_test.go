package nginxconf

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/internal/testkit"
)

// at returns the location with a path, at any depth.
func at(t *testing.T, r *Result, path string) *conf.Location {
	t.Helper()
	var find func(all []conf.Location) *conf.Location
	find = func(all []conf.Location) *conf.Location {
		for i := range all {
			if all[i].Path == path {
				return &all[i]
			}
			if found := find(all[i].Locations); found != nil {
				return found
			}
		}
		return nil
	}
	for i := range r.Config.Hosts {
		if found := find(r.Config.Hosts[i].Locations); found != nil {
			return found
		}
	}
	t.Fatalf("no location %s", path)
	return nil
}

// Servers whose locations have the same directives share Settings, which are those that each server
// has alone. If the names of a server or the path of a location matter, they are not shared.
func TestSharedSettingsAreThoseOfEachServerAlone(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	fsys := withCertificate(t, fstest.MapFS{"key": {Data: []byte("x")}})
	all := []sample{{text: "alias /a/;"}, {text: "valid_referers none server_names;"},
		{text: "valid_referers a.test; valid_referers b.test;"}, {text: "types { a/b c; }"}, {text: "types { a/b d; }"}}
	for _, s := range slices.Concat(slices.Collect(maps.Values(samples(t)))...) {
		if s.level == "location" {
			all = append(all, s)
		}
	}
	settings := func(servers string) (all []*conf.Settings) {
		for p := range placesIn(t, fsys, servers) {
			all = append(all, p.Settings)
		}
		return all
	}
	var shared int
	for _, s := range all {
		text := s.needs + " " + s.text
		a, b := serverWith("a.test", "/a", text), serverWith("b.test", "/b", text)
		got := settings(serverWith("c.test", "/c", "") + a + b)[3:]
		testkit.Equal(t, got, slices.Concat(settings(a), settings(b)), text)
		if got[1] == got[4] {
			shared++
		}
	}
	testkit.Between(t, shared, len(all)/2, len(all), "kinds of settings that are shared")
}

// Locations with the same directives about upstreams share a Proxy, which is that of each alone.
func TestSharedProxiesAreThoseOfEachServerAlone(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	fsys := withCertificate(t, fstest.MapFS{"key": {Data: []byte("x")}})
	passes := map[string]string{"proxy": "proxy_pass http://u;", "https": "proxy_pass https://u;",
		"fastcgi": "fastcgi_pass u;"}
	proxies := func(servers string) (all []*conf.Proxy, texts []string) {
		for p := range placesIn(t, fsys, servers) {
			if p.Location != nil && p.Location.Proxy != nil {
				all = append(all, p.Location.Proxy)
				one := *p.Location.Proxy // dumped changes it
				texts = append(texts, dumped(t, &Result{Config: conf.Config{
					Hosts: []conf.Host{{Locations: []conf.Location{{Proxy: &one}}}}}}))
			}
		}
		return all, texts
	}
	for _, s := range slices.Concat(slices.Collect(maps.Values(samples(t)))...) {
		pass := passes[s.level]
		if pass == "" || strings.Contains(s.text, "health_check") || strings.Contains(s.text, "_pass ") {
			continue
		}
		pass += s.needs + " "
		with, without := serverWith("a.test", "/a", pass+s.text), serverWith("b.test", "/a", pass)
		all, got := proxies(with + without + with)
		_, first := proxies(with)
		_, second := proxies(without)
		if want := slices.Concat(first, second, first); !slices.Equal(got, want) || all[0] != all[2] {
			t.Errorf("%s: got\n%s\nwant\n%s", pass+s.text, got, want)
		}
	}
}

// serverWith returns a server with a location.
func serverWith(name, path, text string) string {
	return fmt.Sprintf("server { listen 81; server_name %s; location %s { %s\nlocation %[2]s/in { } } }\n", name, path,
		text)
}

// placesIn returns the places of a configuration with servers, and files.
func placesIn(t *testing.T, fsys fstest.MapFS, servers string) iter.Seq[places.Place] {
	t.Helper()
	fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(inHTTP("limit_req_zone $host zone=r:1m rate=1r/s;" +
		"limit_conn_zone $host zone=n:1m; proxy_cache_path /c keys_zone=c:1m; fastcgi_cache_path /d keys_zone=d:1m;" +
		"fastcgi_cache_key z; upstream u { server a; }\n" + servers))}
	r, err := Parse("nginx.conf", Options{FS: fsys, DefaultPort: 80, Tracing: true})
	if err != nil {
		t.Fatalf("%s\n%v", servers, err)
	}
	return places.Of(&r.Config)
}
