package files

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Config says what is served and how. The zero value of each field but Dir is a good one.
type Config struct {
	// Dir is the directory to serve. It is opened by New, once: should it be renamed it is served under
	// its new name.
	Dir string
	// Root is used instead of Dir if it is not nil. It stays the caller's, who closes it after the Handler.
	Root *os.Root

	// Index are the names of the files that stand for their directory, the first that exists does. Nil is
	// index.html; a slice without names is none.
	Index []string
	// Listing shows a directory that has no index as a page.
	Listing bool
	// Dotfiles serves what begins with a dot, too. Otherwise only /.well-known is, which is there to be served
	// (RFC 8615).
	Dotfiles bool
	// HideDotfiles leaves names that begin with a dot out of listings, also if they are served.
	HideDotfiles bool
	// Header is added to every answer, errors too. It may not say what the handler says itself, such as
	// Content-Length or Etag.
	Header http.Header
	// NoSymlinks serves nothing that symbolic links lead to. Otherwise they are followed where they stay below the root.
	NoSymlinks bool
	// ByPath finds files by their paths for each request, as nginx does: Dir may be or hold symbolic links, need not exist yet, and what it
	// leads to may change at any time. Links are followed wherever they lead, as far as Symlinks allows. No path leads out of Dir by "..".
	// Otherwise Dir is opened once, and no link leads out of it.
	ByPath bool
	// Symlinks says which links are followed with ByPath. Those in SymlinksFrom, which is the beginning of paths, always are.
	Symlinks     Symlinks
	SymlinksFrom string
	// TypeOf is the media type of a file by its name. Nil, or an empty type, is the system's table, and then what the file begins with.
	TypeOf func(name string) string
	// NoEtag leaves Etag out.
	NoEtag bool
	// ModifiedExact has If-Modified-Since count only if it is the file's time, as in nginx. Otherwise a later time counts, too.
	ModifiedExact bool
	// CacheControl is the Cache-Control of files; empty is none.
	CacheControl string
	// Compress says which encoded variants clients are offered.
	Compress Compress
	// Limits bound what is remembered.
	Limits Limits
}

// Compress says which content codings files are offered in. Whoever asks for none gets the file itself.
type Compress struct {
	// Siblings offers x.br, x.zst and x.gz where there is x beside them. They are not compared with x.
	Siblings bool
	// Gzip and Zstd compress text, scripts and the like when they are first asked for, in the handler. The result
	// is remembered.
	Gzip, Zstd bool
}

// Limits bound what a Handler holds. Zero is the default.
type Limits struct {
	Resources   int   // paths that are remembered; the default is DefaultResources
	Bytes       int64 // of memory that they take; the default is DefaultBytes
	SmallFile   int64 // bytes of a file that is held in memory; the default is DefaultSmallFile
	Descriptors int   // that are kept open and idle; the default is DefaultDescriptors
	Watches     int   // directories that are watched; the default is DefaultWatches, below zero is none
}

const (
	// DefaultResources is more than the files of most sites.
	DefaultResources = 32 << 10
	// DefaultBytes holds most sites' small files.
	DefaultBytes = 128 << 20
	// DefaultSmallFile is about where sendfile begins to cost less than a copy: it takes two writes more, and
	// Go moves other work to another thread meanwhile.
	DefaultSmallFile = 256 << 10
	// DefaultDescriptors leaves most of a usual limit of 1024 to connections.
	DefaultDescriptors = 256
	// DefaultWatches is half of what the kernel allows a user at least.
	DefaultWatches = 4096

	maxAbsent      = 1024    // paths that are remembered to lead nowhere
	maxPath        = 4096    // bytes of a path: Linux's PATH_MAX
	maxName        = 255     // bytes of a name in it: NAME_MAX
	maxRanges      = 16      // of a request; with more it gets the whole file
	minCompress    = 512     // bytes of a file; below it nothing is gained
	maxCompress    = 2 << 20 // bytes of a file; above it the first request would wait too long
	maxCompressing = 2       // files at a time, at most
	maxListed      = 10_000  // names on a page
	maxReloads     = 3       // attempts to get hold of a file that keeps changing
	maxIndex       = 16      // names of Index
	maxIdle        = 32      // descriptors kept open of a file
	maxHeader      = 64      // fields of Header
	sniffed        = 512     // bytes that http.DetectContentType looks at
	resourceWeight = 2 << 10 // bytes that a resource takes beside its contents, about
)

// plan is a Config that was checked. It never changes.
type plan struct {
	dir          string // for watching without /proc; may be empty
	index        []string
	showDirs     bool
	dotfiles     bool
	hideDotfiles bool // in listings
	noSymlinks   bool
	noEtag       bool
	exact        bool // ModifiedExact
	typeOf       func(name string) string
	cacheControl string
	always       []field // Header
	codings      [numCodings]coding
	limits       Limits
	page         *template.Template
}

// ours are fields that a Config may not set: the handler does, or the server.
var ours = []string{
	"Accept-Ranges", "Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Date", "Etag",
	"Keep-Alive", "Last-Modified", "Location", "Trailer", "Transfer-Encoding", "Upgrade",
}

func compile(c Config) (*plan, error) {
	p := &plan{
		dir: c.Dir, index: c.Index, showDirs: c.Listing, dotfiles: c.Dotfiles, hideDotfiles: c.HideDotfiles, cacheControl: c.CacheControl,
		noSymlinks: c.NoSymlinks, noEtag: c.NoEtag, exact: c.ModifiedExact, typeOf: c.TypeOf, limits: c.Limits.withDefaults(), page: newPage(),
	}
	if c.Root == nil && c.Dir == "" && !c.ByPath {
		return nil, errors.New("files: no directory given")
	}
	if c.Index == nil {
		p.index = []string{"index.html"}
	}
	if len(p.index) > maxIndex {
		return nil, fmt.Errorf("files: %d names of an index, want at most %d", len(p.index), maxIndex)
	}
	for _, name := range p.index {
		if place, dir, status := p.place("/" + name); status != 0 || dir || place != name || strings.Contains(name, "/") {
			return nil, fmt.Errorf("files: %q cannot be the name of an index", name)
		}
	}
	if !httpguts.ValidHeaderFieldValue(c.CacheControl) {
		return nil, fmt.Errorf("files: invalid Cache-Control %q", c.CacheControl)
	}
	p.codings = [...]coding{
		brotli:    {token: "br", suffix: ".br", sibling: c.Compress.Siblings},
		zstandard: {token: "zstd", suffix: ".zst", sibling: c.Compress.Siblings, made: c.Compress.Zstd},
		gzipped:   {token: "gzip", suffix: ".gz", sibling: c.Compress.Siblings, made: c.Compress.Gzip},
	}
	var err error
	p.always, err = fixed(c.Header)
	return p, err
}

// fixed checks the fields that all answers have.
func fixed(header http.Header) (all []field, err error) {
	if len(header) > maxHeader {
		return nil, fmt.Errorf("files: %d fields of a header, want at most %d", len(header), maxHeader)
	}
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("files: invalid field name %q", name)
		}
		if slices.Contains(ours, name) {
			return nil, fmt.Errorf("files: the field %q is set by the handler or the server", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("files: invalid value %q of the field %q", v, name)
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

func orDefault[T int | int64](n, standard T) T {
	if n == 0 {
		return standard
	}
	return n
}

// compressors is how many files may be compressed at a time.
func compressors() int { return min(maxCompressing, max(1, runtime.GOMAXPROCS(0)/2)) }

// isIndex reports whether a file of that name may stand for its directory.
func (p *plan) isIndex(name string) bool { return slices.Contains(p.index, name) }
