package proxy

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/message"
)

// proxyLimits compiles Bind and ReadRate. The connections end with the plan.
func proxyLimits(c *core.Compiler, p *proxy) {
	p.readRate, p.bind = c.Text("proxy limit_rate", p.from.ReadRate), c.Text("proxy bind", p.from.Bind)
	if p.bind.Empty() {
		return
	}
	p.binds = fetch.NewPool(nil, p.target.keepAlive(), p.upstream.IsHTTP2)
	c.Plan.Releases = append(c.Plan.Releases, p.binds.Close)
}

// limitRequest sets the local address and the rate of an upstream request. As in nginx an invalid
// address is ignored.
func (p *proxy) limitRequest(x *core.Exchange, q *fetch.Request) {
	if !p.readRate.Empty() && !p.from.Stream {
		if rate, err := grammar.ParseOffset(p.readRate.Eval(x)); err == nil {
			q.ReadRate = min(rate, math.MaxInt32)
		}
	}
	if p.binds == nil {
		return
	}
	local := p.bind.Eval(x)
	if local == "" {
		return
	}
	addr, ok := grammar.ParseAddress(local)
	if !ok {
		x.Errorf(errorlog.LevelError, "invalid local address %q", errorlog.Truncate(local))
		return
	}
	q.Local = addr
	q.Transport, _ = p.binds.Transport(fetch.Identity{Local: addr}) // without a certificate it never fails
}

// respondRange sends the range that the client requests of a response whose upstream does not
// support ranges, as ForceRanges allows; or it proceeds.
func (p *proxy) respondRange(x *core.Exchange, resp *http.Response) core.Outcome {
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 || resp.Header["Content-Range"] != nil {
		return core.Proceed
	}
	modified := message.FirstValue(resp.Header["Last-Modified"])
	r := x.WithConditions(x.WithoutRange(x.Request, message.FirstValue(resp.Header["Content-Type"])), modified,
		x.Loc.Settings.MaxRanges)
	ranges := r.Header["Range"]
	if x.Method != http.MethodGet || len(ranges) != 1 || !strings.HasPrefix(ranges[0], "bytes=") {
		resp.Header["Accept-Ranges"] = []string{"bytes"}
		return core.Proceed
	}
	header := x.Response.Header()
	if r.Header["If-Range"] == nil && beginsBeyond(ranges[0][len("bytes="):], resp.ContentLength) {
		header["Content-Range"] = []string{fmt.Sprintf("bytes */%d", resp.ContentLength)}
		return x.Fail(http.StatusRequestedRangeNotSatisfiable)
	}
	p.response.copyHeader(x, resp.StatusCode, header, resp.Header)
	delete(header, "Accept-Ranges") // it is set if the response has a body
	body := &forwardBody{bodySeeker: bodySeeker{length: resp.ContentLength}, from: resp.Body}
	// the upstream has evaluated conditions other than that of the range
	r = message.Without(r, "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since")
	if cache.SendSelected(&x.Response, r, modified, body, 1); body.err != nil {
		abortResponse(x, body.err)
	}
	return core.Responded
}

// beginsBeyond reports whether a single range has no byte of a response with a length.
func beginsBeyond(list string, length int64) bool {
	first, last, ok := strings.Cut(strings.Trim(list, " "), "-")
	switch {
	case !ok || strings.Contains(list, ","):
		return false
	case first == "":
		return last != "" && leadingNumber(last) == 0 && last[0] == '0'
	}
	return first[0] >= '0' && first[0] <= '9' && leadingNumber(first) >= length
}

// passesRange reports whether a cache passes a request's range on to the upstream: it begins
// beyond an offset, or is counted from the end. most is CachePolicy.MaxRangeOffset.
func passesRange(most int64, header http.Header) bool {
	ranges := header["Range"]
	if most == 0 || len(ranges) == 0 {
		return false
	}
	list, ok := cutFold(ranges[0], "bytes=")
	if most < 0 || !ok {
		return most < 0
	}
	list = strings.TrimLeft(list, " ")
	return strings.HasPrefix(list, "-") || leadingNumber(list) >= most
}

// cutFold is strings.CutPrefix without regard to case.
func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// leadingNumber returns the number that a text begins with, 0 without one, and at most the largest.
func leadingNumber(s string) int64 {
	n, _ := strconv.ParseInt(s[:len(s)-len(strings.TrimLeft(s, "0123456789"))], 10, 64)
	return n
}
