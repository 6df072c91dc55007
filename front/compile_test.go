package front

import (
	"strings"
	"testing"
)

// An invalid Config is an error with a position.
func TestInvalidConfigIsRejected(t *testing.T) {
	host := func(l ...Location) []Host { return []Host{{Pos: "nginx.conf:3", Locations: l}} }
	loc := func(l Location) []Host {
		l.Pos = "nginx.conf:12"
		if l.Path == "" {
			l.Path = "/"
		}
		return host(l)
	}
	for _, test := range []struct {
		name string
		c    Config
		want string
	}{
		{"nothing", Config{}, "front: no hosts"},
		{"unknown variable", Config{Hosts: loc(Location{Steps: []Step{Return{Status: 200, Text: "a$b"}}})},
			`front: nginx.conf:12: return: unknown variable $b in "a$b"`},
		{"in a host", Config{Hosts: []Host{{Pos: "nginx.conf:3", Steps: []Step{Set{"x", "$y"}}}}},
			"front: nginx.conf:3: set $x: unknown variable $y"},
		{"inside of if", Config{Hosts: loc(Location{Steps: []Step{If{Left: "$uri",
			Then: []Step{Return{Status: 301, Text: "$z"}}}}})}, "front: nginx.conf:12: return: unknown variable $z"},
		{"nested", Config{Hosts: host(Location{Path: "/a", Pos: "nginx.conf:4",
			Locations: []Location{{Path: "/b", Pos: "nginx.conf:5"}}})},
			`front: nginx.conf:5: location "/b" is outside of its enclosing location "/a"`},
		{"in an exact one", Config{Hosts: loc(Location{Match: Exact, Locations: []Location{{Path: "/b"}}})},
			"must not have nested locations"},
		{"named inside", Config{Hosts: host(Location{Path: "/",
			Locations: []Location{{Match: Named, Path: "@b", Pos: "nginx.conf:5"}}})}, "nginx.conf:5"},
		{"twice", Config{Hosts: host(Location{Path: "/"},
			Location{Match: FinalPrefix, Path: "/", Pos: "nginx.conf:5"})}, `nginx.conf:5: duplicate location "/"`},
		{"twice exact", Config{Hosts: host(Location{Match: Exact, Path: "/"}, Location{Match: Exact, Path: "/"})},
			"duplicate location"},
		{"twice named", Config{Hosts: host(Location{Match: Named, Path: "@a"}, Location{Match: Named, Path: "@a"})},
			"duplicate location"},
		{"regular expression", Config{Hosts: loc(Location{Match: Regex, Path: "("})},
			`nginx.conf:12: invalid regular expression "("`},
		{"in a name", Config{Hosts: []Host{{Pos: "nginx.conf:3", Names: []string{"~("}}}},
			`nginx.conf:3: invalid regular expression "("`},
		{"a star inside", Config{Hosts: []Host{{Pos: "nginx.conf:3", Names: []string{"a.*.b"}}}},
			`nginx.conf:3: invalid name "a.*.b"`},
		{"two stars", Config{Hosts: []Host{{Names: []string{"*.a.*"}}}}, "invalid name"},
		{"two defaults", Config{Hosts: []Host{{Listen: []Listen{{Addr: "*:80", Default: true}}, Pos: "a:1"},
			{Listen: []Listen{{Addr: "*:80", Default: true}}, Pos: "a:2"}}},
			"front: a:2: *:80: duplicate default host, also at a:1"},
		{"address", Config{Hosts: []Host{{Listen: []Listen{{Addr: "localhost:80"}}},
			{Listen: []Listen{{Addr: "*:81"}}}}}, `"localhost:80"`},
		{"no named location", Config{Hosts: loc(Location{TryFiles: []Text{"/x", "@none"},
			Settings: Settings{Files: Files{Root: "/srv"}}})}, `unknown named location "@none"`},
		{"try_files alone", Config{Hosts: loc(Location{TryFiles: []Text{"/x"}})}, "nginx.conf:12: try_files"},
		{"try_files status", Config{Hosts: loc(Location{TryFiles: []Text{"/x", "=4x"}})}, `invalid status "=4x"`},
		{"two contents", Config{Hosts: loc(Location{Proxy: &Proxy{To: "app"}, Empty: true})}, "more than one of Proxy"},
		{"relative root", Config{Hosts: loc(Location{Settings: Settings{Files: Files{Root: "html"}}})},
			`"html" is not absolute`},
		{"set what is the server's", Config{Hosts: loc(Location{Steps: []Step{Set{"uri", "x"}}})},
			"nginx.conf:12: variable $uri cannot be set"},
		{"group of that name", Config{Hosts: loc(Location{Match: Regex, Path: "(?<host>x)"})}, "$host cannot be set"},
		{"operator", Config{Hosts: loc(Location{Steps: []Step{If{Left: "x", Op: "=="}}})}, `unknown operator "=="`},
		{"rewrite to nothing", Config{Hosts: loc(Location{Steps: []Step{Rewrite{Pattern: "x", To: "?a"}}})},
			"the new path is empty"},
		{"error page", Config{Hosts: loc(Location{Settings: Settings{ErrorPages: []ErrorPage{{Statuses: []int{200},
			Target: "/x"}}}})}, "nginx.conf:12: error page: invalid status 200"},
		{"map twice", Config{Hosts: host(), Maps: []Map{{Name: "m"}, {Name: "M"}}}, "duplicate map $m"},
		{"map of itself", Config{Hosts: host(),
			Maps: []Map{{Name: "m", Source: "$n"}, {Name: "n", Source: "x", Default: "$m"}}}, "depends on itself"},
		{"map of nothing", Config{Hosts: host(), Maps: []Map{{Name: "m", Source: "$none"}}},
			"map $m: unknown variable $none"},
		{"percentages", Config{Hosts: host(),
			Maps: []Map{{Name: "m", Split: true, Cases: []Case{{"60%", "a"}, {"41%", "b"}}}}}, "more than 100"},
		{"percentage", Config{Hosts: host(), Maps: []Map{{Name: "m", Split: true, Cases: []Case{{"6.123%", "a"}}}}},
			"invalid percentage"},
		{"network", Config{Hosts: host(), Maps: []Map{{Name: "m", Geo: true, Cases: []Case{{"10.0.0.0/33", "a"}}}}},
			"neither an address nor a network"},
	} {
		h, err := New(test.c)
		if err == nil {
			_ = h.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "front: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// A rejected Config changes nothing, and leaks nothing.
func TestRejectedReloadChangesNothing(t *testing.T) {
	dir := site(t, "x")
	files := func(root string) Config {
		return Config{Hosts: []Host{{Defaults: Settings{Files: Files{Root: Text(root)}}}}}
	}
	h := newFront(t, files(dir))
	bad := files(site(t))
	bad.Hosts = append(bad.Hosts, Host{Names: []string{"~("}})
	if err := h.Reload(bad); err == nil {
		t.Fatal("an invalid Config is accepted")
	}
	if got := get(t, h, "/x"); got.body != "x" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if n := len(h.state.files.entries); n != 1 {
		t.Errorf("%d directories are open", n)
	}
	other := site(t, "y")
	if err := h.Reload(files(other)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, h, "/y"); got.body != "y" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if n := len(h.state.files.entries); n != 1 {
		t.Errorf("%d directories are open", n)
	}
}
