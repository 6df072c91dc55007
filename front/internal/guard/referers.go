package guard

import (
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/hostname"
)

// RefererModule compares Referer with valid_referers.
func RefererModule() core.Module {
	return core.Module{
		Compile: func(c *core.Compiler, s *conf.Settings, _ core.Slot) (e core.Effect) {
			if s.Referers != nil {
				e.Rules = compileReferers(c, s.Referers)
			}
			return e
		},
		Variables: func(at core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{"invalid_referer": {
				Get: func(x *core.Exchange) string {
					if r, ok := x.ModuleRules(at).(*referers); !ok || r.valid(x, x.Request.Header["Referer"]) {
						return ""
					}
					return "1"
				},
				IsCached: true, IsReplaceable: true, IsSet: core.AlwaysSet,
			}}
		},
	}
}

type referers struct {
	none, blocked bool
	names         *hostname.Map[string] // to the prefix that a URL's path must have
	hosts         []*core.Pattern       // for host names
	urls          []*core.Pattern       // for all that follows the scheme
}

const (
	shortestReferer = len("http://i.ru") // shorter ones are "blocked"
	maxRefererName  = 256                // longer names are invalid
)

func compileReferers(c *core.Compiler, from *conf.Referers) *referers {
	if len(from.Names) == 0 && len(from.Patterns) == 0 {
		c.Failf("valid_referers: want Names or Patterns")
	}
	r := &referers{none: from.None, blocked: from.Blocked, names: hostname.NewMap[string]()}
	for _, name := range from.Names {
		if source, ok := strings.CutPrefix(name, "~"); ok {
			r.hosts = append(r.hosts, c.ParsePattern("valid_referers", source, true))
			continue
		}
		host, path := cutPath(name)
		c.Check("valid_referers", r.names.Add(hostname.LowerASCII(host), path))
	}
	for _, source := range from.Patterns {
		r.urls = append(r.urls, c.ParsePattern("valid_referers", source, true))
	}
	return r
}

func cutPath(s string) (host, path string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// valid reports whether a Referer is valid. As in nginx the first of several fields counts.
func (r *referers) valid(x *core.Exchange, fields []string) bool {
	if len(fields) == 0 {
		return r.none
	}
	url, ok := cutHTTP(fields[0])
	if !ok {
		return r.blocked
	}
	end := strings.IndexAny(url, "/:")
	if end < 0 {
		end = len(url)
	}
	if end > maxRefererName {
		return false
	}
	name := hostname.LowerASCII(url[:end])
	if begins, ok := r.names.Find(name); ok {
		_, path := cutPath(url[end:])
		return strings.HasPrefix(path, begins)
	}
	return core.AnyMatches(x, r.hosts, name) || core.AnyMatches(x, r.urls, url)
}

func cutHTTP(url string) (rest string, ok bool) {
	if len(url) < shortestReferer {
		return url, false
	}
	for _, scheme := range [...]string{"http://", "https://"} {
		if strings.EqualFold(url[:len(scheme)], scheme) {
			return url[len(scheme):], true
		}
	}
	return url, false
}
