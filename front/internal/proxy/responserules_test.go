package proxy

import (
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
)

// Locations share the rules for responses if nothing that the rules are compiled from differs.
func TestResponseRulesAreSharedIfEqual(t *testing.T) {
	compile := func(c *core.Compiler, from conf.Proxy) *responseRules {
		p := &proxy{from: &from}
		p.target.text = core.Text{Literal: string(from.To)}
		p.target.name = p.target.nameOf(string(from.To), "80")
		l := &conf.Location{Path: "/a/", Proxy: &from}
		compileURI(c, p, l)
		compileResponse(c, p, l)
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
		c := core.NewCompiler(&conf.Config{}, &core.Options{}, core.NewState(nil), nil)
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
