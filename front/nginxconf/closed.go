package nginxconf

import (
	"path"
	"slices"
	"strings"

	"github.com/tarehq/tare/front"
)

// This file is about what Options.Lenient leaves out. A directive that may decide which clients get which response closes the block that it
// is in, with all that is in there: an if the block around it, a map, an upstream and such all of http. Only what directives.txt calls
// harmless, and parameters that are reported by omit, are left out without that.

// close closes the location, or the server, whose settings are those of a scope, if something was left out there that closes it.
func (t *translator) close(s *scope, set *front.Settings) {
	d := s.closer()
	if d == nil {
		d = t.closer
	}
	if d == nil {
		return
	}
	set.Closed = d.where() + ": " + shown(d.name) + " is left out"
	set.Access, set.SatisfyAny = []front.AccessRule{{Deny: true}}, false
}

// closer is the nearest directive that closes a scope, or nil. A directive that is off within the one that closes opens the scope again.
func (s *scope) closer() *directive {
	var off []string
	for at := s; at != nil; at = at.outer {
		if d := closerOf(at.list, off); d != nil {
			return d
		}
		for _, d := range at.list {
			if d.spec != nil && d.spec.becomes == refused && d.isOff() {
				off = append(off, d.name)
			}
		}
	}
	return nil
}

// closerOf finds a directive that closes its block, and is not off further in.
func closerOf(block []*directive, off []string) *directive {
	for _, d := range block {
		if d.closes && !slices.Contains(off, d.name) {
			return d
		}
		switch d.name {
		case "http", "server", "location", "limit_except": // closed by themselves
			continue
		}
		if inner := closerOf(d.block, off); inner != nil {
			return inner
		}
	}
	return nil
}

// isKnownModule reports whether a file is that of a module that does nothing without directives which directives.txt knows.
func isKnownModule(file string) bool {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".so"), "_module")
	return slices.Contains([]string{
		"ngx_stream", "ngx_mail", "ngx_stream_geoip", "ngx_stream_geoip2", "ngx_stream_js", "ngx_stream_lua", "ndk_http",
		"ngx_http_image_filter", "ngx_http_xslt_filter", "ngx_http_geoip", "ngx_http_geoip2", "ngx_http_perl", "ngx_http_js", "ngx_http_lua",
		"ngx_http_headers_more_filter", "ngx_http_brotli_filter", "ngx_http_brotli_static", "ngx_http_zstd_filter", "ngx_http_zstd_static",
		"ngx_http_echo", "ngx_http_modsecurity", "ngx_http_vhost_traffic_status",
	}, name)
}
