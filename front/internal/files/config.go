package files

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
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
	// HideDotfiles leaves names that begin with a dot out of listings, even if they are served.
	HideDotfiles bool
	// Header is added to every response, including errors. It must not contain fields that the
	// handler sets, such as Content-Length or Etag.
	Header http.Header
	// NoSymlinks serves nothing behind symbolic links. Otherwise links are followed if they stay
	// below the root.
	NoSymlinks bool
	// ByPath opens files by their paths for each request, as nginx does. Dir may be or contain
	// symbolic links, need not exist yet, and may change at any time. Links are followed, wherever
	// they lead, as far as DisableSymlinks allows; no path leaves Dir by "..". Without ByPath Dir
	// is opened once, and no link leads out of it.
	ByPath bool
	// DisableSymlinks restricts symbolic links with ByPath, in the words of disable_symlinks: ""
	// follows all, "if_not_owner" those whose owner also owns their target, and "on" none. The
	// status of a file behind any other link is 403 or 404. Links in the prefix SymlinksFrom of
	// paths are always followed.
	DisableSymlinks string
	SymlinksFrom    string
	// TypeOf returns the media type of a file by its name. If it is nil or returns "", the system's
	// table counts, and then the file's first bytes.
	TypeOf func(name string) string
	// NoEtag omits Etag.
	NoEtag bool
	// ModifiedExact requires If-Modified-Since to be equal to the file's time, as in nginx.
	// Otherwise it may be later, too.
	ModifiedExact bool
	// MaxRanges bounds the ranges of a request: with more it gets the whole file. 0 is 16, which is
	// also the most, and a negative value disables ranges.
	MaxRanges int
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
	// SiblingCodings restricts Siblings to some of "br", "zstd" and "gzip"; nil is all.
	SiblingCodings []string
	// Gzip and Zstd compress text, scripts and similar files at the first request. The result is
	// cached.
	Gzip, Zstd bool
}

// Limits limit the resources of a Handler. Zero means the default.
type Limits struct {
	Resources   int   // cached paths; the default is DefaultResources
	Bytes       int64 // memory of cached paths; the default is DefaultBytes
	SmallFile   int64 // maximum size of a file in memory; the default is DefaultSmallFile
	Descriptors int   // idle open files; the default is DefaultDescriptors
	Watches     int   // watched directories; the default is DefaultWatches, negative means none
}

const (
	// DefaultResources is more than the number of files on most sites.
	DefaultResources = 32 << 10
	// DefaultBytes is enough for most sites' small files.
	DefaultBytes = 128 << 20
	// DefaultSmallFile is about where sendfile begins to cost less than a copy: sendfile requires
	// two more writes, and Go moves other work to another thread meanwhile.
	DefaultSmallFile = 256 << 10
	// DefaultDescriptors leaves most of the usual limit of 1024 to connections.
	DefaultDescriptors = 256
	// DefaultWatches is half of the kernel's minimum per user.
	DefaultWatches = 4096

	maxAbsent      = 1024    // cached paths that do not exist
	maxPath        = 4096    // bytes of a path: Linux's PATH_MAX
	maxName        = 255     // bytes of a name in a path: NAME_MAX
	maxRanges      = 16      // of a request; with more it gets the whole file
	minCompress    = 512     // minimum size of a file; compressing smaller ones gains nothing
	maxCompress    = 2 << 20 // maximum size of a file; the first request would wait too long
	maxCompressing = 2       // maximum number of files compressed at the same time
	maxListed      = 10_000  // names on a page
	maxReloads     = 3       // attempts to read a file that keeps changing
	maxIndex       = 16      // names of Index
	maxIdle        = 32      // idle descriptors of a file
	maxHeader      = 64      // fields of Header
	sniffed        = 512     // bytes that http.DetectContentType uses
	resourceWeight = 2 << 10 // bytes that a resource needs beside its contents, about
)

// plan is a validated Config. It never changes.
type plan struct {
	dir          string // for watching without /proc; may be empty
	index        []string
	showDirs     bool
	dotfiles     bool
	hideDotfiles bool // in listings
	noSymlinks   bool
	noEtag       bool
	exact        bool // ModifiedExact
	maxRanges    int  // negative: none
	typeOf       func(name string) string
	cacheControl string
	always       []field // Header
	codings      [numCodings]coding
	limits       Limits
}

// reserved are the fields that the handler or the server sets.
var reserved = []string{
	"Accept-Ranges", "Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Date", "Etag",
	"Keep-Alive", "Last-Modified", "Location", "Trailer", "Transfer-Encoding", "Upgrade",
}

func compile(c Config) (*plan, error) {
	p := &plan{
		dir: c.Dir, index: c.Index, showDirs: c.Listing, dotfiles: c.Dotfiles, hideDotfiles: c.HideDotfiles,
		cacheControl: c.CacheControl,
		noSymlinks:   c.NoSymlinks, noEtag: c.NoEtag, exact: c.ModifiedExact, typeOf: c.TypeOf,
		limits: c.Limits.withDefaults(), maxRanges: c.MaxRanges,
	}
	if c.Root == nil && c.Dir == "" && !c.ByPath {
		return nil, errors.New("files: missing Dir: the directory to serve")
	}
	if p.maxRanges == 0 {
		p.maxRanges = maxRanges
	}
	if c.Index == nil {
		p.index = []string{"index.html"}
	}
	if len(p.index) > maxIndex {
		return nil, fmt.Errorf("files: %d names in Index (maximum: %d)", len(p.index), maxIndex)
	}
	for _, name := range p.index {
		if place, dir, status := p.place("/" + name); status != 0 || dir || place != name ||
			strings.Contains(name, "/") {
			return nil, fmt.Errorf("files: invalid name %q in Index", name)
		}
	}
	if !httpguts.ValidHeaderFieldValue(c.CacheControl) {
		return nil, fmt.Errorf("files: invalid Cache-Control %q", c.CacheControl)
	}
	p.codings = [...]coding{
		brotli:    {token: "br", suffix: ".br"},
		zstandard: {token: "zstd", suffix: ".zst", made: c.Compress.Zstd},
		gzipped:   {token: "gzip", suffix: ".gz", made: c.Compress.Gzip},
	}
	for i := range p.codings {
		some := c.Compress.SiblingCodings
		p.codings[i].sibling = c.Compress.Siblings && (some == nil || slices.Contains(some, p.codings[i].token))
	}
	var err error
	p.always, err = fixed(c.Header)
	return p, err
}

// fixed validates the fields of all responses.
func fixed(header http.Header) (all []field, err error) {
	if len(header) > maxHeader {
		return nil, fmt.Errorf("files: %d fields in Header (maximum: %d)", len(header), maxHeader)
	}
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("files: invalid field name %q", name)
		}
		if slices.Contains(reserved, name) {
			return nil, fmt.Errorf("files: field %q must not be in Header: the handler or the server sets it", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("files: invalid value %q of field %q", v, name)
			}
		}
		if len(values) > 0 {
			all = append(all, field{name, slices.Clone(values)})
		}
	}
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Resources:   orDefault(l.Resources, DefaultResources),
		Bytes:       orDefault(l.Bytes, DefaultBytes),
		SmallFile:   orDefault(l.SmallFile, DefaultSmallFile),
		Descriptors: orDefault(l.Descriptors, DefaultDescriptors),
		Watches:     orDefault(l.Watches, DefaultWatches),
	}
}

func orDefault[T int | int64](n, defaultValue T) T {
	if n == 0 {
		return defaultValue
	}
	return n
}

// compressors returns how many files may be compressed at the same time.
func compressors() int { return min(maxCompressing, max(1, runtime.GOMAXPROCS(0)/2)) }

// isIndex reports whether a name is in Index.
func (p *plan) isIndex(name string) bool { return slices.Contains(p.index, name) }
