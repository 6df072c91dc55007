package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/message"
)

// respondRange sends the range that the client requests of a response whose upstream does not
// support ranges, as ForceRanges allows; or it proceeds.
func (p *proxy) respondRange(x *core.Exchange, resp *http.Response) core.Outcome {
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 || resp.Header["Content-Range"] != nil {
		return core.Proceed
	}
	modified := message.FirstValue(resp.Header["Last-Modified"])
	r := x.WithConditions(x.Request, message.FirstValue(resp.Header["Content-Type"]))
	by := x.Loc.Selector().Single()
	ranges, err := byterange.Parse(message.FirstValue(r.Header["Range"]), resp.ContentLength, by.MaxRanges)
	if x.Method != http.MethodGet || ranges == nil && err == nil {
		resp.Header["Accept-Ranges"] = []string{"bytes"}
		return core.Proceed
	}
	header := x.Response.Header()
	p.response.copyHeader(x, resp.StatusCode, header, resp.Header)
	// the upstream has evaluated conditions other than that of the range
	r = message.Without(r, "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since")
	return endSelected(x, cache.SendSelected(&x.Response, r, by, modified, cache.Forward(resp)))
}

// passesRange reports whether a cache passes a request's range on to the upstream: it begins
// beyond an offset, or is counted from the end. most is CachePolicy.MaxRangeOffset.
func passesRange(most int64, header http.Header) bool {
	ranges := header["Range"]
	if most == 0 || len(ranges) == 0 {
		return false
	}
	start, fromEnd, ok := rangeStart(ranges[0])
	return most < 0 || ok && (fromEnd || start >= most)
}

// rangeStart returns where the first range of a Range field begins, or its length if it is counted
// from the end. ok is false for ranges that are not of bytes or malformed.
func rangeStart(value string) (start int64, fromEnd, ok bool) {
	unit, list, _ := strings.Cut(value, "=")
	list, _, _ = strings.Cut(list, ",")
	first, last, ok := strings.Cut(strings.Trim(list, " "), "-")
	if fromEnd = first == ""; fromEnd {
		first = last
	}
	n, err := strconv.ParseUint(strings.Trim(first, " "), 10, 63)
	return int64(n), fromEnd, ok && strings.EqualFold(unit, "bytes") && (err == nil || errors.Is(err, strconv.ErrRange))
}
