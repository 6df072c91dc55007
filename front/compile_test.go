package front_test

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// An invalid Config is an error with a position.
func TestInvalidConfigIsRejected(t *testing.T) {
	host := func(l ...conf.Location) []conf.Host { return []conf.Host{{Pos: "nginx.conf:3", Locations: l}} }
	loc := func(l conf.Location) []conf.Host {
		l.Pos = "nginx.conf:12"
		if l.Path == "" {
			l.Path = "/"
		}
		return host(l)
	}
	for _, test := range []struct {
		name string
		c    conf.Config
		want string
	}{
		{"nothing", conf.Config{}, "front: no hosts"},
		{"unknown variable", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.Return{Status: 200,
			Text: "a$b"}}})},
			`front: nginx.conf:12: return: unknown variable $b in "a$b"`},
		{"in a host", conf.Config{Hosts: []conf.Host{{Pos: "nginx.conf:3",
			Steps: []conf.Step{conf.Set{Name: "x", Value: "$y"}}}}},
			"front: nginx.conf:3: set $x: unknown variable $y"},
		{"inside of if", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.If{Left: "$uri",
			Then: []conf.Step{conf.Return{Status: 301, Text: "$z"}}}}})},
			"front: nginx.conf:12: return: unknown variable $z"},
		{"nested", conf.Config{Hosts: host(conf.Location{Path: "/a", Pos: "nginx.conf:4",
			Locations: []conf.Location{{Path: "/b", Pos: "nginx.conf:5"}}})},
			`front: nginx.conf:5: location "/b" is outside of its enclosing location "/a"`},
		{"in an exact one", conf.Config{Hosts: loc(conf.Location{Match: "=",
			Locations: []conf.Location{{Path: "/b"}}})},
			"must not have nested locations"},
		{"named inside", conf.Config{Hosts: host(conf.Location{Path: "/",
			Locations: []conf.Location{{Match: "@", Path: "@b", Pos: "nginx.conf:5"}}})}, "nginx.conf:5"},
		{"twice", conf.Config{Hosts: host(conf.Location{Path: "/"},
			conf.Location{Match: "^~", Path: "/", Pos: "nginx.conf:5"})},
			`nginx.conf:5: duplicate location "/"`},
		{"twice exact", conf.Config{Hosts: host(conf.Location{Match: "=", Path: "/"},
			conf.Location{Match: "=", Path: "/"})},
			"duplicate location"},
		{"twice named", conf.Config{Hosts: host(conf.Location{Match: "@", Path: "@a"},
			conf.Location{Match: "@", Path: "@a"})},
			"duplicate location"},
		{"regular expression", conf.Config{Hosts: loc(conf.Location{Match: "~", Path: "("})},
			`nginx.conf:12: invalid regular expression "("`},
		{"in a name", conf.Config{Hosts: []conf.Host{{Pos: "nginx.conf:3", Names: []string{"~("}}}},
			`nginx.conf:3: invalid regular expression "("`},
		{"a star inside", conf.Config{Hosts: []conf.Host{{Pos: "nginx.conf:3", Names: []string{"a.*.b"}}}},
			`nginx.conf:3: invalid name "a.*.b"`},
		{"two stars", conf.Config{Hosts: []conf.Host{{Names: []string{"*.a.*"}}}}, "invalid name"},
		{"two defaults", conf.Config{Hosts: []conf.Host{{Listen: []conf.Listen{{Addr: "*:80", Default: true}},
			Pos: "a:1"},
			{Listen: []conf.Listen{{Addr: "*:80", Default: true}}, Pos: "a:2"}}},
			"front: a:2: *:80: duplicate default host, also at a:1"},
		{"address", conf.Config{Hosts: []conf.Host{{Listen: []conf.Listen{{Addr: "localhost:80"}}},
			{Listen: []conf.Listen{{Addr: "*:81"}}}}}, `"localhost:80"`},
		{"no named location", conf.Config{Hosts: loc(conf.Location{TryFiles: []conf.Text{"/x", "@none"},
			Settings: &conf.Settings{Files: conf.Files{Root: "/srv"}}})}, `unknown named location "@none"`},
		{"try_files alone", conf.Config{Hosts: loc(conf.Location{TryFiles: []conf.Text{"/x"}})}, "nginx.conf:12: try_files"},
		{"try_files status", conf.Config{Hosts: loc(conf.Location{TryFiles: []conf.Text{"/x", "=4x"}})}, `invalid status "=4x"`},
		{"two contents", conf.Config{Hosts: loc(conf.Location{Proxy: &conf.Proxy{To: "app"}, Empty: true})},
			"more than one of Proxy"},
		{"relative root",
			conf.Config{Hosts: loc(conf.Location{Settings: &conf.Settings{Files: conf.Files{Root: "html"}}})},
			`"html" is not absolute`},
		{"set what is the server's", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.Set{Name: "uri",
			Value: "x"}}})},
			"nginx.conf:12: variable $uri cannot be set"},
		{"group of that name", conf.Config{Hosts: loc(conf.Location{Match: "~", Path: "(?<host>x)"})}, "$host cannot be set"},
		{"match", conf.Config{Hosts: loc(conf.Location{Match: "!"})}, `nginx.conf:12: invalid match "!"`},
		{"flag", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.Rewrite{Pattern: "x", To: "/y",
			Flag: "lost"}}})}, `invalid flag "lost"`},
		{"symlinks", conf.Config{Hosts: loc(conf.Location{Settings: &conf.Settings{
			Files: conf.Files{DisableSymlinks: "off"}}})}, `nginx.conf:12: invalid DisableSymlinks "off"`},
		{"body file", conf.Config{Hosts: loc(conf.Location{Settings: &conf.Settings{BodyFile: "yes"}})},
			`nginx.conf:12: invalid BodyFile "yes"`},
		{"modified since", conf.Config{Hosts: loc(conf.Location{Settings: &conf.Settings{ModifiedSince: "exact"}})},
			`nginx.conf:12: invalid ModifiedSince "exact"`},
		{"escape", conf.Config{Hosts: host(), LogFormats: []conf.LogFormat{{Name: "f", Escape: "JSON"}}},
			`log format "f": invalid Escape "JSON"`},
		{"client certificates", conf.Config{Hosts: []conf.Host{{Pos: "nginx.conf:3",
			ClientCerts: &conf.ClientCerts{Mode: "on"}}}}, `nginx.conf:3: client certificates: invalid Mode "on"`},
		{"operator", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.If{Left: "x", Op: "=="}}})},
			`unknown operator "=="`},
		{"rewrite to nothing", conf.Config{Hosts: loc(conf.Location{Steps: []conf.Step{conf.Rewrite{Pattern: "x",
			To: "?a"}}})},
			"the new path is empty"},
		{"error page",
			conf.Config{Hosts: loc(conf.Location{Settings: &conf.Settings{
				ErrorPages: []conf.ErrorPage{{Statuses: []int{200}, Target: "/x"}}}})},
			"nginx.conf:12: error page: invalid status 200"},
		{"map twice", conf.Config{Hosts: host(), Maps: []conf.Map{{Name: "m"}, {Name: "M"}}}, "duplicate map $m"},
		{"map of itself", conf.Config{Hosts: host(),
			Maps: []conf.Map{{Name: "m", Source: "$n"}, {Name: "n", Source: "x", Default: "$m"}}}, "depends on itself"},
		{"map of nothing", conf.Config{Hosts: host(), Maps: []conf.Map{{Name: "m", Source: "$none"}}},
			"map $m: unknown variable $none"},
		{"percentages", conf.Config{Hosts: host(),
			Maps: []conf.Map{{Name: "m", Kind: "split_clients", Cases: []conf.Case{{From: "60%", To: "a"}, {From: "41%",
				To: "b"}}}}}, "more than 100"},
		{"percentage", conf.Config{Hosts: host(), Maps: []conf.Map{{Name: "m", Kind: "split_clients",
			Cases: []conf.Case{{From: "6.123%", To: "a"}}}}},
			"invalid percentage"},
		{"network", conf.Config{Hosts: host(), Maps: []conf.Map{{Name: "m", Kind: "geo",
			Cases: []conf.Case{{From: "10.0.0.0/33", To: "a"}}}}},
			"neither an address nor a network"},
	} {
		h, err := front.New(test.c)
		if err == nil {
			_ = h.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "front: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}
