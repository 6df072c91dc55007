package front

import (
	"reflect"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// different returns a copy of a struct for each of its exported fields, in which that field has
// another value.
func different[T any](t *testing.T, from T, change map[string]any) map[string]T {
	t.Helper()
	all := make(map[string]T)
	for i := range reflect.TypeFor[T]().NumField() {
		name := reflect.TypeFor[T]().Field(i).Name
		out := from
		v := reflect.ValueOf(&out).Elem().Field(i)
		if value, ok := change[name]; ok {
			v.Set(reflect.ValueOf(value))
		} else {
			switch v.Kind() {
			case reflect.Bool:
				v.SetBool(true)
			case reflect.String:
				v.SetString("other")
			default:
				t.Fatalf("the test has no value for the new field %s", name)
			}
		}
		all[name] = out
	}
	return all
}

// Locations share a fileSet if all settings of files are equal. A new field that has no part in the
// key fails the test.
func TestFilesAreSharedIfEqual(t *testing.T) {
	compile := func(c *compiler, f conf.Files) *fileSet {
		var loc location
		from := conf.Location{Path: "/a", Proxy: &conf.Proxy{}}
		from.Files = f
		if err := c.files(&loc, &from); err != nil {
			t.Fatal(err)
		}
		return loc.files
	}
	texts := []conf.Text{"a", "b"}
	first := conf.Files{Root: "/srv", Index: []conf.Text{"a.html", "b"}, CharsetTypes: []string{"a/b"}}
	for name, other := range different(t, first, map[string]any{
		"Root": conf.Text("/other"), "Alias": conf.Text("/b"), "Index": texts, "ListingFormat": "json",
		"Precompressed": []string{"gzip"}, "PrecompressedAlways": []string{"br"},
		"Types": map[string]string{"a": "b/c"}, "CharsetTypes": []string{"c/d"},
		"AliasPath": "", "SymlinksFrom": conf.Text(""), // without Alias and DisableSymlinks they have no effect
	}) {
		c := newCompiler()
		f := compile(c, first)
		if compile(c, first) != f {
			t.Fatal("equal files are not shared")
		}
		if same := compile(c, other) == f; same != (name == "AliasPath" || name == "SymlinksFrom") {
			t.Errorf("files that differ in %s: shared: %v", name, same)
		}
	}
}

// Locations share the rules for responses if nothing that the rules are compiled from differs.
func TestResponseRulesAreSharedIfEqual(t *testing.T) {
	compile := func(c *compiler, from conf.Proxy) *responseRules {
		p := &proxy{from: &from}
		p.target.text = text{literal: string(from.To)}
		p.target.name = p.target.nameOf(string(from.To), "80")
		l := &conf.Location{Path: "/a/", Proxy: &from}
		if err := c.proxyURI(p, l); err != nil {
			t.Fatal(err)
		}
		if err := c.proxyResponse(p, l); err != nil {
			t.Fatal(err)
		}
		return p.response
	}
	first := conf.Proxy{To: "app", Hide: []string{"A", "B"}, Ignore: []string{"Vary"}}
	rules, path := []conf.Replace{{From: "a", To: "b"}}, conf.Text("/b/")
	for name, change := range map[string]func(p *conf.Proxy){
		"Protocol":      func(p *conf.Proxy) { p.Protocol = "fastcgi" },
		"To":            func(p *conf.Proxy) { p.To = "other" },
		"URI":           func(p *conf.Proxy) { p.URI = &path },
		"Hide":          func(p *conf.Proxy) { p.Hide = []string{"AB"} },
		"Show":          func(p *conf.Proxy) { p.Show = []string{"A"} },
		"Ignore":        func(p *conf.Proxy) { p.Ignore = nil },
		"Redirects":     func(p *conf.Proxy) { p.Redirects = rules },
		"NoRedirects":   func(p *conf.Proxy) { p.NoRedirects = true },
		"CookieDomains": func(p *conf.Proxy) { p.CookieDomains = rules },
		"CookiePaths":   func(p *conf.Proxy) { p.CookiePaths = rules },
		"CookieFlags":   func(p *conf.Proxy) { p.CookieFlags = []conf.Replace{{From: "a", To: "secure"}} },
	} {
		c := newCompiler()
		r := compile(c, first)
		if compile(c, first) != r {
			t.Fatal("equal rules are not shared")
		}
		other := first
		if change(&other); compile(c, other) == r {
			t.Errorf("rules of proxies that differ in %s are shared", name)
		}
	}
}
