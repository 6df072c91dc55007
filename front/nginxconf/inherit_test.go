package nginxconf

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
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
		if pair[0] != pair[1] {
			t.Errorf("%s: %s; want %s", what, pair[0], pair[1])
		}
	}
}

// An alias is inherited with the path of its location.
func TestAliasIsInheritedWithItsPath(t *testing.T) {
	r := parsed(t, inHTTP(`server {
		root /r;
		location /a/ {
			alias x/;
			location ~ \.php$ { }
			location /a/b/ { location /a/b/c { } }
			location /a/d { alias /d; }
			location /a/e { root /e; }
		}
		location ~ ^/(r)/ {
			alias /x/$1;
			location ~ y { }
		}
	}`))
	for path, want := range map[string]conf.Files{
		"/a/":    {Alias: "/srv/x/", AliasPath: "/a/"},
		`\.php$`: {Alias: "/srv/x/", AliasPath: "/a/"},
		"/a/b/":  {Alias: "/srv/x/", AliasPath: "/a/"},
		"/a/b/c": {Alias: "/srv/x/", AliasPath: "/a/"},
		"/a/d":   {Alias: "/d", AliasPath: "/a/d"},
		"/a/e":   {Root: "/e"},
		"y":      {Alias: "/x/$1"}, // the whole path
	} {
		if got := at(t, r, path).Settings.Files; got.Root != want.Root || got.Alias != want.Alias ||
			got.AliasPath != want.AliasPath {
			t.Errorf("%s has root %q, alias %q for %q; want %q, %q for %q", path, got.Root, got.Alias, got.AliasPath,
				want.Root, want.Alias, want.AliasPath)
		}
	}
}

func TestStepsKeepTheirOrder(t *testing.T) {
	r := parsed(t, inHTTP(`server {
		set $a b;
		if ($host ~* "^www\.(.*)$") { set $c $1; rewrite ^(.*)$ https://$c$1 permanent; }
		rewrite a b last;
		rewrite a $scheme://b break;
		if ( !-f $uri ) { return 404 "no $uri"; }
		if ($a) { break; }
		return https://x/;
	}`))
	want := []conf.Step{
		conf.Set{Name: "a", Value: "b", Pos: "nginx.conf:4:3"},
		conf.If{Left: "$host", Op: "~*", Right: `^www\.(.*)$`, Pos: "nginx.conf:5:3", Then: []conf.Step{
			conf.Set{Name: "c", Value: "$1", Pos: "nginx.conf:5:33"},
			conf.Rewrite{Pattern: "^(.*)$", To: "https://$c$1", Flag: "permanent", Pos: "nginx.conf:5:44"},
		}},
		conf.Rewrite{Pattern: "a", To: "b", Flag: "last", Pos: "nginx.conf:6:3"},
		conf.Rewrite{Pattern: "a", To: "$scheme://b", Flag: "redirect", Pos: "nginx.conf:7:3"},
		conf.If{Op: "!-f", Left: "$uri", Pos: "nginx.conf:8:3",
			Then: []conf.Step{conf.Return{Status: 404, Text: "no $uri", Pos: "nginx.conf:8:21"}}},
		conf.If{Left: "$a", Pos: "nginx.conf:9:3", Then: []conf.Step{conf.Break{}}},
		conf.Return{Status: 302, Text: "https://x/", Pos: "nginx.conf:10:3"},
	}
	if got := fmt.Sprintf("%+v", r.Config.Hosts[0].Steps); got != fmt.Sprintf("%+v", want) {
		t.Errorf("%s; want\n%+v", got, want)
	}
}

func TestProxyPassURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://u":                                `"" u <nil>`,
		"http://u/":                               `"" u /`,
		"http://u/a/b":                            `"" u /a/b`,
		"http://other":                            `"" other:80 <nil>`,
		"https://other":                           `"https" other:443 <nil>`,
		"http://127.0.0.1:8080":                   `"" 127.0.0.1:8080 <nil>`,
		"http://[::1]":                            `"" [::1]:80 <nil>`,
		"http://[::1]:8080/x":                     `"" [::1]:8080 /x`,
		"http://bound":                            `"" bound <nil>`,
		"http://unix:/tmp/s":                      `"" unix:/tmp/s <nil>`,
		"http://unix:/tmp/s:/x":                   `"" unix:/tmp/s /x`,
		"http://$host":                            `"" $host <nil>`,
		"http://$host:8080$request_uri":           `"" $host:8080 $request_uri`,
		"http://$host/x$uri":                      `"" $host /x$uri`,
		"http://u$uri$is_args$args":               `"" u $uri$is_args$args`,
		"http://u${request_uri}":                  `"" u ${request_uri}`,
		"http://$uri_of":                          `"" $uri_of <nil>`,
		"http://u?a=b":                            `"" u ?a=b`,
		"https://$host:8443/a?b=$arg_b&c=$cookie": `"https" $host:8443 /a?b=$arg_b&c=$cookie`,
	} {
		r, err := Parse("nginx.conf", Options{
			FS: oneFile(inHTTP("upstream u { server a; } server { location / { proxy_pass \"" + text +
				"\"; } }")),
			DefaultPort: 80, Bound: []string{"bound"},
		})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p := at(t, r, "/").Proxy
		uri := "<nil>"
		if p.URI != nil {
			uri = string(*p.URI)
		}
		if got := fmt.Sprintf("%q %s %s", p.Protocol, p.To, uri); got != want {
			t.Errorf("%s is %s; want %s", text, got, want)
		}
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
		if want := slices.Concat(settings(a), settings(b)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", text, got, want)
		}
		if got[1] == got[4] {
			shared++
		}
	}
	if shared < len(all)/2 {
		t.Errorf("%d of %d kinds of settings are shared", shared, len(all))
	}
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
