package transform

import (
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/mediatype"
)

// CharsetModule adds charsets to the types of responses: charset and charset_types. Files and
// built-in pages have them from the location's Types.
func CharsetModule() core.Module {
	return core.Module{Compile: func(c *core.Compiler, s *conf.Settings, _ core.Slot) (e core.Effect) {
		if s.Files.Charset == "" {
			return e
		}
		t := c.MediaTypes(&s.Files)
		return core.Effect{Rules: t, Head: func(w *core.Writer) { addCharset(t, w) }}
	}}
}

// addCharset adds the charset to the type of a response without one. As in nginx 301 and 302 get
// none.
func addCharset(t *mediatype.Table, w *core.Writer) {
	if w.Status == http.StatusMovedPermanently || w.Status == http.StatusFound {
		return
	}
	if media := w.Header()["Content-Type"]; len(media) == 1 {
		if with := t.WithCharset(media[0]); with != media[0] {
			w.Header()["Content-Type"] = []string{with}
		}
	}
}
