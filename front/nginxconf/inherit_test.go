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

func headers(l *conf.Location) string {
	var all []string
	for _, h := range l.Settings.Header {
		all = append(all, h.Name)
	}
	return strings.Join(all, " ")
}

func sent(l *conf.Location) string {
	var all []string
	for _, h := range l.Proxy.Header {
		all = append(all, h.Name)
	}
	return strings.Join(all, " ")
}

// A block with its own directives of a list inherits none of that list.
func TestListsAreInheritedWhole(t *testing.T) {
	r := parsed(t, inHTTP(`
		add_header A 1; add_header B 1; error_page 404 /a; proxy_set_header P 1; fastcgi_param F 1; access_log /l; deny all; sub_filter a 1; sub_filter b 1; sub_filter_once off;
		limit_req_zone $host zone=z:1m rate=1r/s; limit_req_zone $host zone=y:1m rate=1r/s; limit_req zone=z;
		server {
			add_header C 1;
			location /inherits { proxy_pass http://a; }
			location /own {
				add_header D 1; add_header E 1; error_page 500 /b; proxy_set_header Q 1; access_log off; allow all; limit_req zone=y; sub_filter c 1;
				proxy_pass http://a;
				location /own/inner { proxy_pass http://a; expires 1h; }
			}
			location /f { fastcgi_pass a:1; }
			location /g { fastcgi_pass a:1; fastcgi_param G 1; }
		}`))
	inherits, own, inner := at(t, r, "/inherits"), at(t, r, "/own"), at(t, r, "/own/inner")
	for what, pair := range map[string][2]string{
		"add_header":             {headers(inherits), "C"},
		"own add_header":         {headers(own), "D E"},
		"inner add_header":       {headers(inner), "D E"},
		"proxy_set_header":       {sent(inherits), "P"},
		"own proxy_set_header":   {sent(own), "Q"},
		"inner proxy_set_header": {sent(inner), "Q"},
		"error_page":             {string(inherits.Settings.ErrorPages[0].Target), "/a"},
		"own error_page":         {fmt.Sprint(len(own.Settings.ErrorPages), own.Settings.ErrorPages[0].Target), "1/b"},
		"access_log":             {fmt.Sprint(len(inherits.Settings.Logs)), "1"},
		"own access_log":         {fmt.Sprint(len(own.Settings.Logs)), "0"},
		"inner access_log":       {fmt.Sprint(len(inner.Settings.Logs)), "0"},
		"deny":                   {fmt.Sprint(inherits.Settings.Access[0].Deny), "true"},
		"allow instead of deny":  {fmt.Sprint(len(own.Settings.Access), own.Settings.Access[0].Deny), "1 false"},
		"limit_req":              {inherits.Settings.Requests[0].Zone, "z"},
		"own limit_req":          {fmt.Sprint(len(own.Settings.Requests), own.Settings.Requests[0].Zone), "1y"},
		"sub_filter":             {fmt.Sprint(len(inherits.Settings.SubFilter.Substitutions), inherits.Settings.SubFilter.Every), "2 true"},
		"own sub_filter":         {fmt.Sprint(own.Settings.SubFilter.Substitutions, own.Settings.SubFilter.Every), "[{c 1}] true"},
		"fastcgi_param":          {at(t, r, "/f").Proxy.Params[0].Name, "F"},
		"own fastcgi_param":      {fmt.Sprint(len(at(t, r, "/g").Proxy.Params), at(t, r, "/g").Proxy.Params[0].Name), "1G"},
	} {
		testkit.Equal(t, pair[0], pair[1], what)
	}
}

// Servers whose locations have the same directives share Settings, which are those that each server
// has alone. If the names of a server or the path of a location matter, they are not shared.
func TestSharedSettingsAreThoseOfEachServerAlone(t *testing.T) {
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
