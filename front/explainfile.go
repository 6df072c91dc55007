package front

import (
	"fmt"
	"net/http"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/uri"
)

// explain implements content. It responds as serve does, but without content.
func (f *fileSet) explain(x *exchange, e *explanation) outcome {
	name, ok := f.fullName(x, x.path)
	text := map[files.Kind]string{
		files.File: "the file %s", files.Directory: "the directory %s", files.Denied: "%s, which must not be read",
		files.Nothing: "%s, which does not exist",
	}[f.kind(x, x.path)]
	if !ok {
		text = "no file: there is no root"
	} else {
		text = fmt.Sprintf(text, name)
	}
	at := len(e.findings)
	e.add(x, "content", x.loc.pos, "%s", text)
	out := f.serveHead(x)
	if out == relocate {
		text = fmt.Sprintf("; its index is %s", uri.WithQuery(x.path, x.args))
		if x.errorStatus != 0 {
			text = fmt.Sprintf(": rejects the request with %d; the error page is %s", x.errorStatus,
				uri.WithQuery(x.path, x.args))
		}
		e.findings[at].text += text
		return relocate
	}
	e.hasContent = e.hasContent || x.parent == nil
	return out
}

// serveHead serves files to a GET as to a HEAD.
func (f *fileSet) serveHead(x *exchange) outcome {
	if x.method != http.MethodGet {
		return f.serve(x)
	}
	received := x.r
	if received.Method == http.MethodGet {
		r := *received
		r.Method, x.r = http.MethodHead, &r
	}
	x.method = http.MethodHead
	out := f.serve(x)
	x.r, x.method = received, http.MethodGet
	return out
}
