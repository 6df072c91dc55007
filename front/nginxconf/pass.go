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

// passesOf makes an upstream the location's content handler, if the block from names one itself;
// the settings are those of s. Locations with the same upstream, settings and path share the Proxy,
// and what is compiled of it, connections by TLS included.
func (t *translator) passesOf(from, s *scope, l *conf.Location) {
	if s.location == nil || len(t.closing) > 0 || from.own("health_check") != nil || // each location has checks of its own
		!from.passes() {
		t.translatePasses(from, s, l)
		return
	}
	key := proxyKey{t.chain(s, ofUpstreams), l.Match, l.Path}
	if l.Proxy = t.sharedProxies[key]; l.Proxy != nil {
		return
	}
	before := t.messages()
	t.translatePasses(from, s, l)
	if t.messages() == before {
		t.sharedProxies[key] = l.Proxy
	}
}

// passes reports whether a block names an upstream itself.
func (s *scope) passes() bool {
	return s.own("proxy_pass") != nil || s.own("fastcgi_pass") != nil || s.own("grpc_pass") != nil
}

func (t *translator) translatePasses(from, s *scope, l *conf.Location) {
	for _, d := range from.own("proxy_pass") {
		l.Proxy = t.pass(s, "proxy")
		t.proxyPass(d, s, l)
	}
	for _, d := range from.own("grpc_pass") {
		l.Proxy = t.pass(s, "grpc")
		t.grpcPass(d, s, l.Proxy)
	}
	for _, d := range from.own("fastcgi_pass") {
		l.Proxy = t.pass(s, "fastcgi")
		l.Proxy.Protocol = "fastcgi"
		l.Proxy.To = t.target(d, d.Args[0], "")
		if c := l.Proxy.Cache; c != nil && c.Key == "" {
			t.errorf(d, "missing fastcgi_cache_key: all requests would get the same response")
		}
	}
	t.healthCheck(from, l.Proxy)
}

// pass translates the settings for an upstream in a scope: the directives that begin with kind,
// which is proxy, grpc or fastcgi.
func (t *translator) pass(s *scope, kind string) *conf.Proxy {
	of := func(name string) string { return kind + "_" + name }
	p := &conf.Proxy{
		NoHeader:       !s.flag(of("pass_request_headers"), true),
		NoBody:         !s.flag(of("pass_request_body"), true),
		Hide:           s.words(of("hide_header")),
		Show:           s.words(of("pass_header")),
		Ignore:         s.words(of("ignore_headers")),
		Stream:         !s.flag(of("buffering"), true),
		StreamRequest:  !s.flag(of("request_buffering"), true),
		BufferBytes:    s.buffers(of("buffers")),
		ConnectTimeout: s.time(of("connect_timeout")),
		SendTimeout:    s.time(of("send_timeout")),
		ReadTimeout:    s.time(of("read_timeout")),
		Next:           next(s, of("next_upstream")),
		Intercept:      s.flag(of("intercept_errors"), false),
		IgnoreAbort:    s.flag(of("ignore_client_abort"), false),
		Cache:          t.cache(s, kind),
		ForceRanges:    s.flag(of("force_ranges"), false),
		Bind:           t.bind(s, of("bind")),
		ReadRate:       t.rate(s, of("limit_rate")),
		Resolver:       t.resolver(s),
		Slice:          s.size("slice", 0),
		MaxSpool:       s.size(of("max_temp_file_size"), -1),
	}
	switch kind {
	case "proxy":
		t.proxy(s, p)
	case "grpc":
		t.grpc(s, p)
	default:
		t.fastcgi(s, p)
	}
	return p
}

// bind translates the local address of connections: "off", or IP, or IP:PORT.
func (t *translator) bind(s *scope, name string) conf.Text {
	d := s.one(name)
	if d == nil || d.IsOff() {
		return ""
	}
	if len(d.Args) == 2 {
		if d.Args[0] == "off" {
			return ""
		}
		t.reject(d, "transparent is not supported: it requires a server with privileges")
	}
	if !hasVariable(d.Args[0]) {
		if _, ok := grammar.ParseAddress(d.Args[0]); !ok {
			t.errorf(d, "invalid address %s (must be IP, or IP:PORT)", grammar.Quote(d.Args[0]))
		}
	}
	return t.text(d, d.Args[0])
}

// next translates the conditions for a retry on another server.
func next(s *scope, name string) conf.NextUpstream {
	n := conf.NextUpstream{Tries: s.number(name+"_tries", 0)}
	if d := s.one(name + "_timeout"); d != nil {
		n.For, _ = grammar.ParseTime(d.Args[0]) // in both, 0 means no limit
	}
	words := s.words(name)
	if n.Statuses = conditions(words, map[string]*bool{"error": &n.Error, "timeout": &n.Timeout,
		"invalid_header": &n.InvalidHeader, "non_idempotent": &n.NonIdempotent, "off": &n.Off}); n.Off {
		return conf.NextUpstream{Off: true}
	}
	// As in nginx, explicit words replace the default.
	n.Off = words != nil && !n.Error && !n.Timeout && !n.InvalidHeader && n.Statuses == nil
	return n
}

// conditions sets the flags that words name, and returns the statuses of http_NNN.
func conditions(words []string, flags map[string]*bool) (statuses []int) {
	for _, word := range words {
		word = strings.ToLower(word)
		if flag := flags[word]; flag != nil {
			*flag = true
		} else if code, ok := strings.CutPrefix(word, "http_"); ok {
			n, _ := grammar.ParseNumber(code)
			statuses = append(statuses, int(n))
		}
	}
	return statuses
}

// target returns the target of a request: the name of an upstream, or an address, with port as its
// default port.
func (t *translator) target(d *syntax.Directive, text, port string) conf.Text {
	to := t.text(d, text)
	if hasVariable(text) {
		return to
	}
	if t.isUpstream(text) {
		return to
	}
	err := checkServerAddr(text)
	if t.check(d, err); err != nil || strings.HasPrefix(text, "unix:") {
		return to
	}
	host, port := grammar.SplitPort(text, port)
	if port == "" {
		t.errorf(d, "unknown upstream %s (must be HOST:PORT, unix:PATH or the name of an upstream)", grammar.Quote(text))
	}
	return conf.Text(host + ":" + port)
}

// isUpstream reports whether a name is that of an upstream or a bound handler.
func (t *translator) isUpstream(name string) bool {
	return t.upstreams[strings.ToLower(name)] ||
		slices.ContainsFunc(t.options.Bound, func(bound string) bool { return strings.EqualFold(bound, name) })
}

// fastcgi translates the directives that only FastCGI has.
func (t *translator) fastcgi(s *scope, p *conf.Proxy) {
	p.Protocol = "fastcgi"
	p.KeepConn = s.flag("fastcgi_keep_conn", false)
	p.ParamIndex = s.word("fastcgi_index")
	p.SplitPath = s.word("fastcgi_split_path_info")
	p.CatchStderr = s.words("fastcgi_catch_stderr")
	for _, d := range s.all("fastcgi_param") {
		p.Params = append(p.Params, conf.Param{Name: d.Args[0], Value: t.upstreamText(s, d, d.Args[1]),
			IfNotEmpty: len(d.Args) == 3})
	}
}

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

// cache translates the settings of the cache in a scope. It returns nil for a scope without one.
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
	d := s.one(of("cache"))
	if d == nil || d.Args[0] == "off" {
		return nil
	}
	for _, m := range s.all(of("cache_methods")) {
		if slices.ContainsFunc(m.Args, func(arg string) bool { return strings.EqualFold(arg, "POST") }) {
			t.omit(m, "POST is not supported: no key contains the body of the request")
		}
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
