package files

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/internal/byterange"
)

// Config describes what a Handler serves. Fields without a comment are as in package front/files.
type Config struct {
	Dir        string
	Root       *os.Root
	Index      []string
	Listing    bool
	Dotfiles   bool
	Header     http.Header
	NoSymlinks bool
	TypeOf     func(name string) string
	NoEtag     bool

	// ByPath opens files by their paths for each request, as nginx does. Dir may be or contain
	// symbolic links, need not exist yet, and may change at any time. Links are followed, wherever
	// they lead, as far as DisableSymlinks allows; no path leaves Dir by "..". Listings leave out
	// names that begin with a dot. Without ByPath Dir is opened once, and no link leads out of it.
	ByPath bool
	// DisableSymlinks restricts symbolic links with ByPath, in the words of disable_symlinks: ""
	// follows all, "if_not_owner" those whose owner also owns their target, and "on" none. The
	// status of a file behind any other link is 403 or 404. Links in the prefix SymlinksFrom of
	// paths are always followed.
	DisableSymlinks string
	SymlinksFrom    string
	// Selector evaluates conditions and ranges.
	Selector byterange.Selector

	CacheControl string
	Compress     Compress
	Limits       Limits
}

// Compress defines the content codings of files. Fields without a comment are as in package
// front/files.
type Compress struct {
	Siblings bool
	// SiblingCodings restricts Siblings to some of "br", "zstd" and "gzip"; nil is all. With ByPath
	// x need not exist. Those of AlwaysCodings are also sent to clients that do not accept them.
	SiblingCodings, AlwaysCodings []string
	Gzip, Zstd                    bool
}

func (c *Compress) hasSiblings() bool { return c.Siblings || len(c.AlwaysCodings) > 0 }

// Limits limit the resources of a Handler. Zero means the default.
type Limits struct {
	Resources int   // cached paths; the default is DefaultResources
	Bytes     int64 // memory of cached paths; the default is DefaultBytes
	SmallFile int64 // maximum size of a file in memory; the default is DefaultSmallFile
}

const (
	// DefaultResources is more than the number of files on most sites.
	DefaultResources = 32 << 10
	// DefaultBytes is enough for most sites' small files.
	DefaultBytes = 128 << 20
	// DefaultSmallFile is about where sendfile begins to cost less than a copy: sendfile requires
	// two more writes, and Go moves other work to another thread meanwhile.
	DefaultSmallFile = 256 << 10

	maxAbsent      = 1024    // cached paths that do not exist
	maxPath        = 4096    // bytes of a path: Linux's PATH_MAX
	maxName        = 255     // bytes of a name in a path: NAME_MAX
	minCompress    = 512     // minimum size of a file; compressing smaller ones gains nothing
	maxCompress    = 2 << 20 // maximum size of a file; the first request would wait too long
	maxCompressing = 2       // maximum number of files compressed at the same time
	maxListed      = 10_000  // names on a page
	maxReloads     = 3       // attempts to read a file that keeps changing
	maxIndex       = 16      // names of Index
	maxHeader      = 64      // fields of Header
	sniffed        = 512     // bytes that http.DetectContentType uses
	resourceWeight = 2 << 10 // bytes that a resource needs beside its contents, about
)

// plan is a validated Config. It never changes.
type plan struct {
	config  Config      // with its defaults
	always  http.Header // Header
	codings [numCodings]coding
}

// reserved are the fields that the handler or the server sets.
var reserved = []string{
	"Accept-Ranges", "Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Date", "Etag",
	"Keep-Alive", "Last-Modified", "Location", "Trailer", "Transfer-Encoding", "Upgrade",
}

func compile(c Config) (*plan, error) {
	if c.Root == nil && c.Dir == "" && !c.ByPath {
		return nil, errors.New("files: missing Dir: the directory to serve")
	}
	if c.Index == nil {
		c.Index = []string{"index.html"}
	}
	if len(c.Index) > maxIndex {
		return nil, fmt.Errorf("files: %d names in Index (maximum: %d)", len(c.Index), maxIndex)
	}
	c.Limits = c.Limits.withDefaults()
	p := &plan{config: c}
	for _, name := range c.Index {
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
		coding, some := &p.codings[i], c.Compress.SiblingCodings
		coding.always = slices.Contains(c.Compress.AlwaysCodings, coding.token)
		coding.sibling = coding.always || c.Compress.Siblings && (some == nil || slices.Contains(some, coding.token))
	}
	var err error
	p.always, err = fixed(c.Header)
	return p, err
}

// fixed validates the fields of all responses.
func fixed(header http.Header) (all http.Header, err error) {
	if len(header) > maxHeader {
		return nil, fmt.Errorf("files: %d fields in Header (maximum: %d)", len(header), maxHeader)
	}
	all = make(http.Header)
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
			all[name] = slices.Clone(values)
		}
	}
	return all, nil
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Resources: cmp.Or(l.Resources, DefaultResources),
		Bytes:     cmp.Or(l.Bytes, DefaultBytes),
		SmallFile: cmp.Or(l.SmallFile, DefaultSmallFile),
	}
}
