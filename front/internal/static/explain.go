package static

import (
	"fmt"
	"net/http"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/uri"
)

// Explain implements content. It responds as serve does, but without content.
func (f *fileSet) Explain(x *core.Exchange, e *core.Explanation) core.Outcome {
	name, ok := f.fullName(x, x.Path)
	text := map[files.Kind]string{
		files.File: "the file %s", files.Directory: "the directory %s", files.Denied: "%s, which must not be read",
		files.Nothing: "%s, which does not exist",
	}[f.kind(x, x.Path)]
	if !ok {
		text = "no file: there is no root"
	} else {
		text = fmt.Sprintf(text, name)
	}
	at := len(e.Findings)
	e.Add(x, "content", x.Loc.Pos, "%s", text)
	out := f.serveHead(x)
	if out == core.Relocate {
		text = fmt.Sprintf("; its index is %s", uri.WithQuery(x.Path, x.Args))
		if x.ErrorStatus != 0 {
			text = fmt.Sprintf(": rejects the request with %d; the error page is %s", x.ErrorStatus,
				uri.WithQuery(x.Path, x.Args))
		}
		e.Findings[at].Text += text
		return core.Relocate
	}
	e.HasContent = e.HasContent || x.Parent == nil
	return out
}

// serveHead serves files to a GET as to a HEAD.
func (f *fileSet) serveHead(x *core.Exchange) core.Outcome {
	if x.Method != http.MethodGet {
		return f.Serve(x)
	}
	received := x.Request
	if received.Method == http.MethodGet {
		r := *received
		r.Method, x.Request = http.MethodHead, &r
	}
	x.Method = http.MethodHead
	out := f.Serve(x)
	x.Request, x.Method = received, http.MethodGet
	return out
}
