package nginxconf

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

const (
	// perKey is the factor between the memory that a key of a file needs here and in nginx.
	perKey = 2
	// maxZone is the maximum size of a keys_zone.
	maxZone = 1 << 40
	// defaultCacheBytes limits a cache without max_size.
	defaultCacheBytes = 1 << 30
	// cacheMemory limits the responses of a cache in memory.
	cacheMemory = 64 << 20
)

// cachePath translates proxy_cache_path or fastcgi_cache_path.
func (t *translator) cachePath(d *syntax.Directive) {
	c := conf.Cache{Dir: t.path(d, d.Args[0])}
	const why = "the cache manages its files in the background"
	known := []param{
		value("levels=", &c.Levels, levels),
		{"keys_zone=", func(text string) error {
			zone, size, _ := strings.Cut(text, ":")
			n, err := grammar.ParseSize(size)
			if err != nil || zone == "" {
				return errors.New("must be keys_zone=NAME:SIZE, such as keys_zone=one:10m")
			}
			c.Name, c.MemoryBytes = zone, cacheMemory+perKey*min(n, maxZone)
			return nil
		}},
		value("inactive=", &c.Inactive, func(text string) (time.Duration, error) {
			at, err := grammar.ParseSeconds(text)
			return max(at, 1), err
		}),
		value("max_size=", &c.MaxBytes, grammar.ParseOffset),
		value("min_free=", &c.MinFree, grammar.ParseOffset),
		t.ignoredParam(d, "use_temp_path=", why, parses(onOff)),
	}
	for _, name := range []string{"manager_files=", "manager_sleep=", "manager_threshold=", "loader_files=",
		"loader_sleep=", "loader_threshold=", "purger=", "purger_files=", "purger_sleep=", "purger_threshold="} {
		known = append(known, t.ignoredParam(d, name, why, nil))
	}
	t.params(d, d.Args[1:], known...)
	if c.Name == "" {
		t.errorf(d, "missing keys_zone=NAME:SIZE")
		return
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultCacheBytes
		t.remark(d, "no max_size: the limit is %d MB, where nginx has none", defaultCacheBytes>>20)
	}
	if maker, ok := t.caches[c.Name]; ok {
		t.errorf(d, "duplicate cache %s (first one by %s)", grammar.Quote(c.Name), maker)
		return
	}
	t.caches[c.Name] = d.Name
	t.config.Caches = append(t.config.Caches, c)
}

func (t *translator) check(d *syntax.Directive, err error) {
	if err != nil {
		t.errorf(d, "%v", err)
	}
}

func levels(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ":") {
		if part != "1" && part != "2" || len(all) == 3 {
			return nil, errors.New("must be up to three numbers, each 1 or 2, such as levels=1:2")
		}
		all = append(all, int(part[0]-'0'))
	}
	return all, nil
}

// cache translates the settings of the cache in a scope; nil if there is none.
func (t *translator) cache(s *scope, kind string) *conf.ProxyCache {
	of := func(name string) string { return kind + "_" + name }
	c := conf.ProxyCache{Key: t.textOf(s, of("cache_key"))}
	c.Skip = t.texts(s, of("cache_bypass"))
	c.NoStore = t.texts(s, of("no_cache"))
	c.Purge = t.purge(s, of("cache_purge"))
	c.Policy = conf.CachePolicy{
		Valid:       t.valid(s, of("cache_valid")),
		MinUses:     s.number(of("cache_min_uses"), 0),
		Stale:       stale(s, of("cache_use_stale")),
		Background:  s.flag(of("cache_background_update"), false),
		Revalidate:  s.flag(of("cache_revalidate"), false),
		Lock:        s.flag(of("cache_lock"), false),
		LockTimeout: s.time(of("cache_lock_timeout")),
		LockAge:     s.time(of("cache_lock_age")),
		KeepHead:    !s.flag(of("cache_convert_head"), true),

		MaxRangeOffset: s.size(of("cache_max_range_offset"), -1),
	}
	if methods := s.words(of("cache_methods")); methods != nil {
		c.Policy.Methods = []string{"GET", "HEAD"} // always stored
		if slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, "POST") }) {
			c.Policy.Methods = append(c.Policy.Methods, "POST")
		}
	}
	d := s.one(of("cache"))
	if d == nil || d.Args[0] == "off" {
		return nil
	}
	if c.Zone = t.text(d, d.Args[0]); hasVariable(d.Args[0]) {
		return new(c)
	}
	if maker := t.caches[d.Args[0]]; t.ok() && maker != of("cache_path") {
		t.errorf(d, "unknown cache %s (add a %s with keys_zone=%s:10m)", grammar.Quote(d.Args[0]), of("cache_path"),
			d.Args[0])
	}
	return new(c)
}

// purge translates cache_purge STRING.... A constant would make every request purge: a third-party
// module with a directive of the same name is configured that way.
func (t *translator) purge(s *scope, name string) []conf.Text {
	if d := s.one(name); d != nil {
		for _, arg := range d.Args {
			if !hasVariable(arg) && arg != "" && arg != "0" && arg != "1" {
				t.errorf(d, "%s would make every request purge (use a variable, or 1)", grammar.Quote(arg))
			}
		}
	}
	return t.texts(s, name)
}

func (t *translator) texts(s *scope, name string) []conf.Text {
	var texts []conf.Text
	for _, d := range s.all(name) {
		for _, arg := range d.Args {
			texts = append(texts, t.text(d, arg))
		}
	}
	return texts
}

// valid translates cache_valid [STATUS...|any] TIME.
func (t *translator) valid(s *scope, name string) []conf.CacheValid {
	var all []conf.CacheValid
	for _, d := range s.all(name) {
		last := len(d.Args) - 1
		at, err := grammar.ParseSeconds(d.Args[last])
		t.check(d, err)
		v := conf.CacheValid{For: at}
		if last == 0 {
			v.Statuses = []int{200, 301, 302}
		}
		for _, code := range d.Args[:last] {
			if code == "any" {
				v.Statuses = nil
				break
			}
			n, err := strconv.Atoi(code)
			if err != nil || n < 100 || n > 599 {
				t.errorf(d, "invalid status %s (examples: 200, any)", grammar.Quote(code))
			}
			v.Statuses = append(v.Statuses, n)
		}
		all = append(all, v)
	}
	return all
}

func stale(s *scope, name string) (st conf.CacheStale) {
	off := false
	if st.Statuses = conditions(s.words(name), map[string]*bool{"error": &st.Error, "timeout": &st.Timeout,
		"invalid_header": &st.InvalidHeader, "updating": &st.Updating, "off": &off}); off {
		return conf.CacheStale{}
	}
	return st
}
