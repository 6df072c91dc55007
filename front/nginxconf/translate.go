package nginxconf

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

type translator struct {
	*report
	options Options
	source  *syntax.Source
	hosts   *resolver
	file    string
	prefix  string
	confDir string

	config  conf.Config
	process Process

	upstreams map[string]bool // names in lower case
	matches   map[string]*conf.HealthMatch
	zones     map[string]*syntax.Directive // limit_req_zone or limit_conn_zone, by name
	// the name of the directive that defines a cache, by the cache's name
	caches  map[string]string
	formats map[string]bool // names of log formats
	// the contents of files of passwords that were read, by path
	passwordFiles  map[string]string
	available      map[string]bool // texts whose variables are available
	defined        map[string]bool // variables that the configuration defines
	missing        map[string]bool // folders of relative paths that were reported
	listens        []*listen
	chains         map[chain]*chain
	httpChain      chain
	sharedSettings map[*chain]*conf.Settings
	sharedProxies  map[proxyKey]*conf.Proxy
	closer         *syntax.Directive // a directive outside of http that closes everything, or nil
}

func newTranslator(s *syntax.Source, file string, o Options, r *report) *translator {
	t := &translator{
		report: r, options: o, source: s, hosts: newResolver(o.LookupNetIP), file: file, confDir: filepath.Dir(file),
		prefix:    o.Prefix,
		upstreams: make(map[string]bool), matches: make(map[string]*conf.HealthMatch),
		zones: make(map[string]*syntax.Directive), caches: make(map[string]string),
		formats:       map[string]bool{"combined": true},
		passwordFiles: make(map[string]string), available: make(map[string]bool),
		defined: make(map[string]bool), missing: make(map[string]bool),
		chains: make(map[chain]*chain), sharedSettings: make(map[*chain]*conf.Settings),
		sharedProxies: make(map[proxyKey]*conf.Proxy),
	}
	t.config.Blank = make(map[string]bool)
	if o.FS == nil {
		if abs, err := filepath.Abs(t.confDir); err == nil { // valid in any working directory
			t.confDir = abs
		}
	}
	if t.prefix == "" {
		t.prefix = t.confDir
	}
	return t
}

func (t *translator) main(tree []*syntax.Directive) {
	t.define(tree)
	s := newScope(nil, levelMain, tree)
	t.processOf(s)
	t.closer = t.closerOf(s)
	for _, d := range s.own("http") {
		t.http(d)
	}
	first := &syntax.Directive{Pos: syntax.Position{File: t.file, Line: 1}}
	if s.own("events") == nil {
		t.errorf(first, "missing block \"events {}\"")
	}
	if s.own("http") == nil && t.ok() {
		t.warn(first, "no http block: nothing is served")
	}
}

// http translates the http block. It translates definitions before the directives that use them,
// wherever they stand.
func (t *translator) http(d *syntax.Directive) {
	s := newScope(nil, levelHTTP, d.Block)
	definitions := t.definitions(s)
	for _, d := range d.Block {
		if define := definitions[d.Name]; define != nil {
			define(d)
		}
	}
	t.config.Types = t.typesOf(s)
	_ = t.validate(s)
	for _, d := range s.own("server") {
		t.server(d, s)
	}
	t.listeners()
	if t.listens == nil && t.ok() {
		t.warn(d, "no server: nothing is served")
	}
}

// definitions translate directives that apply to all of http.
func (t *translator) definitions(http *scope) map[string]func(*syntax.Directive) {
	return map[string]func(*syntax.Directive){
		"upstream":           func(d *syntax.Directive) { t.upstream(d, http) },
		"match":              t.healthMatch,
		"map":                t.mapOf,
		"geo":                t.geo,
		"split_clients":      t.splitClients,
		"log_format":         t.logFormat,
		"limit_req_zone":     t.requestZone,
		"limit_conn_zone":    t.connZone,
		"acme_issuer":        t.issuer,
		"otel_exporter":      func(d *syntax.Directive) { t.exporter(d, http) },
		"proxy_cache_path":   t.cachePath,
		"fastcgi_cache_path": t.cachePath,
	}
}

// validate translates settings that may apply to no location, so that their errors are reported
// nevertheless. It returns those that are not of an upstream.
func (t *translator) validate(s *scope) *conf.Settings {
	settings := t.settings(s)
	_ = t.pass(s, "proxy")
	_ = t.pass(s, "fastcgi")
	_ = t.pass(s, "grpc")
	return settings
}

// typesOf returns the media types of a scope, by file name extension.
func (t *translator) typesOf(s *scope) map[string]string {
	blocks := s.all("types")
	if blocks == nil {
		// nginx's default
		return map[string]string{"html": "text/html", "gif": "image/gif", "jpg": "image/jpeg"}
	}
	types := make(map[string]string)
	for _, block := range blocks {
		for _, d := range t.entries(block) {
			for _, end := range d.Args {
				types[strings.ToLower(end)] = d.Name
			}
		}
	}
	return types
}

// entries returns the statements of a block that is data.
func (t *translator) entries(block *syntax.Directive) []*syntax.Directive {
	return slices.DeleteFunc(slices.Clone(block.Block), func(d *syntax.Directive) bool {
		if d.HasBlock {
			t.errorf(d, "unexpected block in %s: \";\" expected", block.Name)
		}
		return d.HasBlock
	})
}
