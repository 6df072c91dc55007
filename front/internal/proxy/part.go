package proxy

import (
	"io"
	"net/http"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
)

// parted is what a module makes of a request to fetch its response in parts, each by an upstream
// request of its own. An upstream that sends no part, 206, makes a whole response of it.
type parted interface {
	// isPart returns what reports whether a response is the part. A cache may call it later.
	isPart() func(*http.Response) bool
	// respond responds with all that the client wants, of which first is the first part.
	respond(x *core.Exchange, p *proxy, target destination, first upstreamPart) core.Outcome
}

// isParted reports whether a response is one of several parts.
func isParted(x *core.Exchange, status int) bool {
	s := stateOf(x)
	return s != nil && s.part != nil && status == http.StatusPartialContent
}

// upstreamPart is a part: a response, cached or not.
type upstreamPart struct {
	status int
	header http.Header
	body   io.Reader
	close  func()
	cached *cache.Response // nil if it is not cached
}

// partOf returns the part that is a response of an upstream.
func partOf(resp *http.Response) upstreamPart {
	return upstreamPart{status: resp.StatusCode, header: resp.Header, body: resp.Body,
		close: func() { closeQuietly(resp.Body) }}
}

// cachedPart returns the part that is a response of a cache.
func cachedPart(a *cache.Response) upstreamPart {
	if a.Passed != nil {
		return partOf(a.Passed)
	}
	return upstreamPart{status: a.Status, header: a.Header, body: a.Body(), close: a.Close, cached: a}
}
