package files

import (
	"net/http"
	"os"

	"github.com/tarehq/tare/front/internal/files"
)

// Config describes what a Handler serves. Every field but Dir may be zero.
type Config struct {
	// Dir is the directory to serve. New opens it once: if it is renamed later, it is still served.
	Dir string
	// Root is used instead of Dir if it is not nil. The caller keeps it, and closes it after the
	// Handler.
	Root *os.Root

	// Index lists the files that represent their directory; the first one that exists counts. Nil
	// is index.html; an empty slice means none.
	Index []string
	// Listing generates a page for a directory that has no index.
	Listing bool
	// Dotfiles serves names that begin with a dot. Otherwise only /.well-known is served, which
	// exists for that (RFC 8615).
	Dotfiles bool
	// Header is added to every response, including errors. It must not contain fields that the
	// handler sets, such as Content-Length or Etag.
	Header http.Header
	// NoSymlinks serves nothing behind symbolic links. Otherwise links are followed if they stay
	// below the root.
	NoSymlinks bool
	// TypeOf returns the media type of a file by its name. If it is nil or returns "", the system's
	// table counts, and then the file's first bytes.
	TypeOf func(name string) string
	// NoEtag omits Etag.
	NoEtag bool
	// CacheControl is the Cache-Control of files; "" means none.
	CacheControl string
	// Compress defines which encoded variants clients may receive.
	Compress Compress
	// Limits limit the cached resources.
	Limits Limits
}

// Compress defines the content codings of files. A client that accepts none of them receives the
// file itself.
type Compress struct {
	// Siblings offers x.br, x.zst and x.gz next to a file x. Their contents are not compared with
	// x.
	Siblings bool
	// Gzip and Zstd compress text, scripts and similar files at the first request. The result is
	// cached.
	Gzip, Zstd bool
}

// Limits limit the resources of a Handler. Zero means the default.
type Limits struct {
	Resources int   // cached paths; the default is 32,768
	Bytes     int64 // memory of cached paths; the default is 128 MB
	SmallFile int64 // maximum size of a file in memory; the default is 256 KB
}

// Handler serves the files of a directory. It is safe for concurrent use.
//
// It serves GET and HEAD, and returns 405 for other methods. A directory's path ends in a slash,
// and a file's does not: the other form is redirected. Requests for more than 16 ranges get the
// whole file. If a file changes while it is sent, the connection (in HTTP/2 the stream) is closed
// before the last bytes.
//
// Use New to make one.
type Handler struct{ files *files.Handler }

// New returns a Handler. It fails if the Config is invalid, or if the directory cannot be opened.
// New reads the system's table of media types. The process may change its root directory afterwards
// if Dir is still valid there. Close stops the Handler's goroutine.
func New(c Config) (*Handler, error) {
	h, err := files.New(files.Config{
		Dir: c.Dir, Root: c.Root, Index: c.Index, Listing: c.Listing, Dotfiles: c.Dotfiles, Header: c.Header,
		NoSymlinks: c.NoSymlinks, TypeOf: c.TypeOf, NoEtag: c.NoEtag, CacheControl: c.CacheControl,
		Compress: files.Compress{Siblings: c.Compress.Siblings, Gzip: c.Compress.Gzip, Zstd: c.Compress.Zstd},
		Limits:   files.Limits(c.Limits),
	})
	if err != nil {
		return nil, err
	}
	return &Handler{h}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.files.ServeHTTP(w, r) }

// Close ends the watch, closes the directory and empties the cache. Later requests get 503.
func (h *Handler) Close() error { return h.files.Close() }
