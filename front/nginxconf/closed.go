package nginxconf

import (
	"path"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// This file implements Options.Lenient. A rejected directive that may decide which clients get
// which response closes the block that contains it. An if closes the block around it; a map or an
// upstream closes all of http. Directives that directives.txt calls harmless, and parameters
// reported by omit, are left out without closing anything.

// close closes the location or server whose settings are those of a scope, if a directive that was
// left out closes it.
func (t *translator) close(s *scope, set *conf.Settings) {
	if t.closing == 0 { // closer looks at all directives around
		return
	}
	d := s.closer()
	if d == nil {
		d = t.closer
	}
	if d == nil {
		return
	}
	set.Closed = d.where() + ": " + shown(d.name) + " is left out"
	set.Access, set.SatisfyAny = []conf.AccessRule{{Deny: true}}, false
}

// closer returns the nearest directive that closes a scope, or nil. If a directive inside the
// closed block switches the closing one off, the scope is open again.
func (s *scope) closer() *directive {
	var off []string
	for at := s; at != nil; at = at.outer {
		if d := closerOf(at.list, off); d != nil {
			return d
		}
		for _, d := range at.list {
			if d.spec != nil && d.spec.support == rejected && d.isOff() {
				off = append(off, d.name)
			}
		}
	}
	return nil
}

// closerOf finds a directive that closes its block and is not switched off inside.
func closerOf(block []*directive, off []string) *directive {
	for _, d := range block {
		if d.closes && !slices.Contains(off, d.name) {
			return d
		}
		switch d.name {
		case "http", "server", "location", "limit_except": // these close only themselves
			continue
		}
		if inner := closerOf(d.block, off); inner != nil {
			return inner
		}
	}
	return nil
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
