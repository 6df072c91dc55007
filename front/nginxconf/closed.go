package nginxconf

import (
	"path"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// This file implements Options.Lenient. A rejected directive that may decide which clients get
// which response closes the block that contains it. An if closes the block around it; a map or an
// upstream closes all of http. Directives that directives.txt calls harmless, and parameters
// reported by omit, are left out without closing anything. Variables that only rejected directives
// define are empty in texts that decide nothing. A directive that has one in another text is
// rejected itself.

// close closes the location or server whose settings are those of a scope, if a directive that was
// left out closes it.
func (t *translator) close(s *scope, set *conf.Settings) {
	if len(t.closing) == 0 { // closer looks at all directives around
		return
	}
	d := t.closerOf(s)
	if d == nil {
		d = t.closer
	}
	if d == nil {
		return
	}
	set.Closed = d.Where() + ": " + grammar.Quote(d.Name) + " is left out"
	set.Access, set.SatisfyAny = []conf.AccessRule{{Deny: true}}, false
}

// closerOf returns the nearest directive that closes a scope, or nil. If a directive inside the
// closed block switches the closing one off, the scope is open again.
func (r *report) closerOf(s *scope) *syntax.Directive {
	var off []string
	for at := s; at != nil; at = at.outer {
		if d := r.closerIn(at.list, off); d != nil {
			return d
		}
		for _, d := range at.list {
			if d.Spec != nil && d.Spec.Support == syntax.Rejected && d.StatesDefault() {
				off = append(off, d.Name)
			}
		}
	}
	return nil
}

// closerIn finds a directive that closes its block and is not switched off inside.
func (r *report) closerIn(block []*syntax.Directive, off []string) *syntax.Directive {
	for _, d := range block {
		if r.closing[d] && !slices.Contains(off, d.Name) {
			return d
		}
		switch d.Name {
		case "http", "server", "location", "limit_except": // these close only themselves
			continue
		}
		if inner := r.closerIn(d.Block, off); inner != nil {
			return inner
		}
	}
	return nil
}

// keeps reports an ignored or rejected directive. It returns whether the directive is translated.
func (r *report) keeps(d *syntax.Directive) bool {
	s := d.Spec
	switch {
	case s.Support == syntax.Supported:
		return true
	case s.Support == syntax.Ignored:
		r.remark(d, "%s", s.Remark)
		return true
	case d.StatesDefault():
		return !s.Harmless
	case d.Name == "load_module" && isKnownModule(d.Args[0]):
		r.remark(d, "the module is not loaded: what is supported of it is built in")
	case s.Harmless:
		r.omit(d, "not supported: %s", s.Remark)
	default:
		r.reject(d, "not supported: %s", s.Remark)
	}
	r.drop(d)
	// other rejected directives close what they are in, or open it again
	return !s.Harmless
}

// drop notes the variables of a rejected directive. Texts with them are treated as those with
// variables that are not available.
func (r *report) drop(d *syntax.Directive) {
	var names []string
	switch {
	case slices.Contains([]string{"js_set", "js_var", "perl_set", "set_by_lua", "set_by_lua_file", "set_by_lua_block",
		"auth_jwt_claim_set", "auth_jwt_header_set"}, d.Name):
		names = d.Args[:min(len(d.Args), 1)]
	case d.Name == "geoip2":
		for _, entry := range d.Block {
			names = append(names, entry.Name)
		}
	case strings.HasPrefix(d.Name, "geoip_"):
		names = []string{"$geoip_"}
	case strings.HasPrefix(d.Name, "auth_jwt"):
		names = []string{"$jwt_"}
	case strings.HasPrefix(d.Name, "vhost_traffic_status"):
		names = []string{"$vts_"}
	case strings.HasPrefix(d.Name, "echo"):
		names = []string{"$echo_"}
	}
	for _, name := range names {
		if name, ok := strings.CutPrefix(strings.ToLower(name), "$"); ok {
			r.dropped = append(r.dropped, grammar.Missing{Name: name, Why: grammar.Quote(d.Name) + " is not supported"})
		}
	}
}

func (t *translator) whyUnavailable(name string) string {
	if t.defined[name] {
		return ""
	}
	for _, v := range t.dropped {
		if v.Has(name) {
			return v.Why
		}
	}
	return grammar.Unavailable(name)
}

// define notes the variables that a tree defines. They may have the names of others.
func (t *translator) define(tree []*syntax.Directive) {
	for _, d := range tree {
		at := -1
		switch d.Name {
		case "set", "auth_request_set":
			at = 0
		case "map", "split_clients", "geo":
			at = len(d.Args) - 1
		}
		if at >= 0 && at < len(d.Args) {
			name := strings.ToLower(strings.TrimPrefix(d.Args[at], "$"))
			t.defined[name], t.config.Blank[name] = true, true // empty where nothing has set it
		}
		t.define(d.Block)
	}
}

// isKnownModule reports whether a file is that of a module that has no effect without directives
// that directives.txt lists: they are supported without the module, or rejected themselves.
func isKnownModule(file string) bool {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".so"), "_module")
	return slices.Contains([]string{
		"ngx_stream", "ngx_mail", "ngx_stream_geoip", "ngx_stream_geoip2", "ngx_stream_js", "ngx_stream_lua",
		"ndk_http",
		"ngx_http_image_filter", "ngx_http_xslt_filter", "ngx_http_geoip", "ngx_http_geoip2", "ngx_http_perl",
		"ngx_http_js", "ngx_http_lua",
		"ngx_http_headers_more_filter", "ngx_http_brotli_filter", "ngx_http_brotli_static", "ngx_http_zstd_filter",
		"ngx_http_zstd_static",
		"ngx_otel", "ngx_http_cache_purge", "ngx_http_subs_filter",
		"ngx_http_echo", "ngx_http_modsecurity", "ngx_http_vhost_traffic_status",
	}, name)
}
