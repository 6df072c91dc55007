package static

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/files"
)

// list lists a directory, byte for byte as nginx does.
func (f *fileSet) list(x *core.Exchange, p *filePlace) core.Outcome {
	entries, isCut, status := p.handler.List(p.name)
	if status != 0 {
		f.logUnreadable(x, status)
		return x.Fail(status)
	}
	if isCut {
		x.Errorf(errorlog.LevelWarn, "autoindex: %q has more names than the %d that are listed",
			errorlog.Truncate(x.Path), len(entries))
	}
	s := &x.Loc.Settings.Files
	if s.ListingFormat == "json" {
		return x.SendPage(http.StatusOK, "application/json", appendJSONListing(nil, entries))
	}
	page := files.Page{IsUTF8: strings.EqualFold(s.Charset, "utf-8"), IsRounded: s.RoundSizes,
		IsLocalTime: s.LocalTimes}
	return x.SendPage(http.StatusOK, f.types.WithCharset("text/html"), page.Append(nil, x.Path, entries, isCut))
}

func listedType(e *files.Entry) string {
	switch {
	case e.Dir:
		return "directory"
	case e.Regular:
		return "file"
	}
	return "other"
}

func appendJSONListing(b []byte, entries []files.Entry) []byte {
	b = append(b, '[')
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		e := &entries[i]
		b = append(accesslog.AppendJSON(append(b, "\r\n{ \"name\":\""...), e.Name), `", "type":"`...)
		b = append(append(b, listedType(e)...), `", "mtime":"`...)
		b = append(e.Modified.UTC().AppendFormat(b, http.TimeFormat), '"')
		if e.Regular {
			b = strconv.AppendInt(append(b, `, "size":`...), e.Size, 10)
		}
		b = append(b, " }"...)
	}
	return append(b, "\r\n]"...)
}
