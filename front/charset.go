package front

import (
	"net/http"

	"github.com/tarehq/tare/front/conf"
)

// charsetModule adds charsets to the types of responses: charset and charset_types. Files and
// built-in pages have them from mediaTypes.
func charsetModule() module {
	return module{compile: func(c *compiler, s *conf.Settings, _ slot) (effect, error) {
		if s.Files.Charset == "" {
			return effect{}, nil
		}
		t := c.mediaTypes(&s.Files)
		return effect{rules: t, fields: func(x *exchange, header http.Header) { addCharset(t, x, header) }}, nil
	}}
}

// addCharset adds the charset to the type of a response without one. As in nginx 301 and 302 get
// none.
func addCharset(t *mediaTypes, x *exchange, header http.Header) {
	if x.w.status == http.StatusMovedPermanently || x.w.status == http.StatusFound {
		return
	}
	if media := header["Content-Type"]; len(media) == 1 {
		if with := t.withCharset(media[0]); with != media[0] {
			header["Content-Type"] = []string{with}
		}
	}
}
