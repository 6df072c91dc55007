package static

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/message"
)

// precompressed is a coding whose files are served in place of others: x.gz for x. Package files
// does so if x exists. Here x need not exist, or x.gz is served whatever the client accepts.
type precompressed struct {
	coding, suffix string
	isAlways       bool // also to clients that do not accept the coding
}

// precompressedOf returns the codings of a location's files, those that are always served first.
func precompressedOf(s *conf.Files) (all []precompressed) {
	for i, codings := range [][]string{s.PrecompressedAlways, s.Precompressed} {
		for _, coding := range codings {
			suffix := map[string]string{"gzip": ".gz", "br": ".br", "zstd": ".zst"}[coding]
			all = append(all, precompressed{coding, suffix, i == 0})
		}
	}
	return all
}

// findPrecompressed returns a coding in which the file exists: one that is always served, or else
// one that the client accepts. Otherwise it returns nil.
func (f *fileSet) findPrecompressed(r *http.Request, p *filePlace, always bool) *precompressed {
	for i := range f.precompressed {
		c := &f.precompressed[i]
		if c.isAlways == always && (always || message.AcceptsCoding(r.Header["Accept-Encoding"], c.coding)) &&
			p.handler.Kind(p.name+c.suffix) == files.File {
			return c
		}
	}
	return nil
}

// servePrecompressed serves a file that findPrecompressed has found, like ServePath.
func (f *fileSet) servePrecompressed(x *core.Exchange, r *http.Request, p *filePlace, c *precompressed) (status int) {
	header := x.Response.Header()
	header["Content-Type"] = []string{f.types.TypeOf(x.Path)}
	header["Content-Encoding"] = []string{c.coding}
	if !c.isAlways {
		message.AddVary(header)
	}
	r = message.Without(r, "Accept-Encoding") // there may be a file x.gz.br
	return p.handler.ServePath(&x.Response, r, p.name+c.suffix)
}

// servePath serves the file of a place, precompressed if it exists only so or if that is always
// served. It returns a status like ServePath.
func (f *fileSet) servePath(x *core.Exchange, r *http.Request, p *filePlace) (status int) {
	if len(f.precompressed) == 0 {
		return p.handler.ServePath(&x.Response, r, p.name)
	}
	if c := f.findPrecompressed(r, p, true); c != nil {
		return f.servePrecompressed(x, r, p, c)
	}
	status = p.handler.ServePath(&x.Response, r, p.name)
	if status == http.StatusNotFound {
		if c := f.findPrecompressed(r, p, false); c != nil {
			return f.servePrecompressed(x, r, p, c)
		}
		exists := func(c precompressed) bool { return p.handler.Kind(p.name+c.suffix) == files.File }
		if slices.ContainsFunc(f.precompressed, exists) {
			message.AddVary(x.Response.Header()) // other clients get the file
		}
	}
	return status
}
