package core

import (
	"net/url"
	"strings"

	"github.com/tarehq/tare/front/internal/uri"
)

// findPath sets the path for which locations are searched. It returns false if the request target
// has none.
//
// A client must not send a fragment (RFC 9112, 3.2). As in nginx it belongs neither to the path nor
// to the query. Unlike nginx the front does not forward it, because servers differ in how they
// treat it.
func (x *Exchange) findPath() (ok bool) {
	target := x.Request.URL
	if before, _, has := strings.Cut(x.Request.RequestURI, "#"); has {
		u, err := url.ParseRequestURI(before)
		if err != nil {
			return false
		}
		target, x.Args, x.URIChanged = u, u.RawQuery, true
	}
	x.Path, ok = uri.RequestPath(target, x.Host.KeepSlashes)
	return ok
}
