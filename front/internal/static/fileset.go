package static

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/uri"
)

type fileSet struct {
	root   core.Text // or Alias
	alias  bool      // root is an Alias
	prefix string    // of paths, which alias replaces; "" with a regular expression

	dir     string         // the part of root without variables
	handler *files.Handler // for dir
	from    core.Text      // disable_symlinks from=, if that has variables
	roots   *fileRoots     // handlers by from; nil if from is constant
	config  files.Config   // of handler and roots, without TypeOf

	index []core.Text
	types *mediatype.Table
}

// FilesModule serves files: root, alias, index, autoindex, and others. They are the content of
// locations without another one.
func FilesModule() core.Module {
	return core.Module{
		Location: func(c *core.Compiler, loc *core.Location, from *conf.Location) {
			f := compileFiles(c, loc, from)
			if loc.Files = f; loc.Content == nil {
				loc.Content = f
			}
		},
		Variables: func(core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{
				"document_root": {Get: documentRoot},
				"realpath_root": {Get: func(x *core.Exchange) string {
					path, _ := filepath.EvalSymlinks(documentRoot(x)) // "" if there is none
					return path
				}},
				"request_filename": {Get: func(x *core.Exchange) string {
					full, _ := filesOf(x).fullName(x, x.Path)
					return full
				}},
			}
		},
	}
}

func filesOf(x *core.Exchange) *fileSet {
	if f, ok := x.Loc.Files.(*fileSet); ok {
		return f
	}
	return new(fileSet)
}

// filePlace is a name below the directory of a handler.
type filePlace struct {
	handler *files.Handler
	name    string
}

// Serve responds with a file or a directory. As in nginx methods that do not read get 405, but POST
// only if the file exists.
func (f *fileSet) Serve(x *core.Exchange) core.Outcome {
	switch x.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		return x.Fail(http.StatusMethodNotAllowed)
	}
	if strings.HasSuffix(x.Path, "/") {
		return f.directory(x)
	}
	p, out := f.findPath(x)
	if out != core.Proceed {
		return out
	}
	isDir := strings.HasSuffix(p.name, "/") || strings.HasSuffix(p.name, "/.") // alias may be a directory
	if isDir || x.Method == http.MethodPost {
		kind := p.handler.Kind(p.name)
		if isDir && kind == files.File {
			kind = files.Nothing
		}
		return f.serveUnreadable(x, kind)
	}
	if f.alias && mediatype.Extension(x.Path) != mediatype.Extension(p.name) {
		x.Response.Header()["Content-Type"] = []string{f.types.TypeOf(x.Path)}
	}
	contentType := ""
	if x.Loc.EditsBody() { // otherwise it need not be known
		contentType = f.types.TypeOf(x.Path)
	}
	r := x.WithConditions(fileRequest(x), contentType)
	switch status := p.handler.ServePath(&x.Response, r, p.name); status {
	case 0:
		return core.Responded
	case http.StatusMovedPermanently:
		return f.redirectToSlash(x)
	case http.StatusBadRequest: // a path above the root does not exist
		status = http.StatusNotFound
		fallthrough
	default:
		f.logUnreadable(x, status)
		return x.Fail(status)
	}
}

// logFile logs, in nginx's words, about the file of a path: its name precedes the arguments.
func (f *fileSet) logFile(x *core.Exchange, path, format string, args ...any) {
	if x.ErrorLog().IsEnabled(errorlog.LevelError) {
		full, _ := f.fullName(x, path)
		x.Errorf(errorlog.LevelError, format, slices.Insert(args, 0, any(full))...)
	}
}

// logUnreadable logs why a file is not sent.
func (f *fileSet) logUnreadable(x *core.Exchange, status int) {
	if why := unreadable(x, status); why != "" {
		f.logFile(x, x.Path, "open() %q failed %s", why)
	}
}

// logNoIndex logs why an index is not sent.
func (f *fileSet) logNoIndex(x *core.Exchange, index string, status int) {
	what := "is not found"
	if status == http.StatusForbidden {
		what = "is forbidden"
	}
	if why := unreadable(x, status); why != "" {
		f.logFile(x, x.Path+index, "%q %s %s", what, why)
	}
}

// unreadable returns the system's error for a status, or "" if it is not logged.
func unreadable(x *core.Exchange, status int) string {
	switch {
	case status == http.StatusForbidden:
		return "(13: Permission denied)"
	case status == http.StatusNotFound && !x.Loc.Settings.NoLogNotFound:
		return "(2: No such file or directory)"
	}
	return ""
}

// serveUnreadable responds where a file is not sent.
func (f *fileSet) serveUnreadable(x *core.Exchange, kind files.Kind) core.Outcome {
	switch kind {
	case files.File:
		return x.Fail(http.StatusMethodNotAllowed)
	case files.Directory:
		return f.redirectToSlash(x)
	case files.Denied:
		return x.Fail(http.StatusForbidden)
	}
	return x.Fail(http.StatusNotFound)
}

// redirectToSlash redirects the client to the path of a directory.
func (f *fileSet) redirectToSlash(x *core.Exchange) core.Outcome {
	return x.SendRedirect(http.StatusMovedPermanently, uri.WithQuery(uri.EscapePath(x.Path+"/"), x.Args))
}

// directory redirects internally to the index of a directory, or lists the directory.
func (f *fileSet) directory(x *core.Exchange) core.Outcome {
	p, out := f.findPath(x)
	if out != core.Proceed {
		return out
	}
	isChecked := false
	for i := range f.index {
		name := f.index[i].Eval(x)
		if x.RegexTimedOut {
			return x.Fail(http.StatusInternalServerError)
		}
		if strings.HasPrefix(name, "/") {
			return x.Redirect(name, x.Args)
		}
		to := x.Path + name
		file := to
		if p.name != x.Path {
			file = p.name + name
		}
		switch p.handler.Kind(file) {
		case files.File:
			return x.Redirect(to, x.Args)
		case files.Directory: // as in nginx, also this one, by an empty name or a dot
			return x.RedirectTo(to, x.Args)
		case files.Denied:
			f.logNoIndex(x, name, http.StatusForbidden)
			return x.Fail(http.StatusForbidden)
		}
		// the directory has no index by another name either
		if !isChecked && p.directoryStatus() != http.StatusOK {
			f.logNoIndex(x, name, http.StatusNotFound)
			return x.Fail(http.StatusNotFound)
		}
		isChecked = true
	}
	if !isChecked {
		if status := p.directoryStatus(); status != http.StatusOK {
			f.logUnreadable(x, status)
			return x.Fail(status)
		}
	}
	if !x.Loc.Settings.Files.Listing || x.Method == http.MethodPost {
		f.logFile(x, x.Path, "directory index of %q is forbidden")
		return x.Fail(http.StatusForbidden)
	}
	return f.list(x, &p)
}

// directoryStatus returns 200 if the place is a directory, otherwise the status of the error.
func (p *filePlace) directoryStatus() int {
	switch p.handler.Kind(p.name) {
	case files.Directory:
		return http.StatusOK
	case files.Denied:
		return http.StatusForbidden
	}
	return http.StatusNotFound
}

// fileRequest returns the request that a file responds to: the client's, or one without its
// conditions for an error page or a subrequest.
func fileRequest(x *core.Exchange) *http.Request {
	if x.IsConditional() && x.Method == x.Request.Method && x.Parent == nil {
		return x.Request
	}
	method := x.Method
	if x.DiscardsBody() {
		method = http.MethodHead
	}
	header := make(http.Header)
	if v := x.Request.Header["Accept-Encoding"]; v != nil {
		header["Accept-Encoding"] = v
	}
	return &http.Request{Method: method, URL: &url.URL{RawQuery: x.Args}, Header: header}
}

// kind returns the kind of file that a path leads to.
func (f *fileSet) kind(x *core.Exchange, path string) files.Kind {
	p, ok := f.find(x, path)
	if !ok {
		return files.Nothing
	}
	return p.handler.Kind(p.name)
}

// find returns the place that a path leads to, or false.
func (f *fileSet) find(x *core.Exchange, path string) (p filePlace, ok bool) {
	if !f.alias && !strings.HasPrefix(path, "/") { // it would be beside the root
		return p, false
	}
	if !f.alias && f.root.Constant() {
		p.name = path
	} else {
		full, within := f.fullName(x, path)
		if p.name, ok = strings.CutPrefix(full, f.dir); !within || !ok || p.name != "" && p.name[0] != '/' {
			return p, false
		}
		if p.name == "" {
			p.name = "/"
		}
	}
	if p.handler = f.handler; f.roots != nil {
		p.handler = f.roots.handler(f, f.from.Eval(x))
	}
	return p, p.handler != nil
}

func (f *fileSet) findPath(x *core.Exchange) (filePlace, core.Outcome) {
	p, ok := f.find(x, x.Path)
	switch {
	case x.RegexTimedOut:
		return p, x.Fail(http.StatusInternalServerError)
	case !ok:
		if why := unreadable(x, http.StatusNotFound); why != "" {
			x.Errorf(errorlog.LevelError, "%q is not found %s", x.Path, why)
		}
		return p, x.Fail(http.StatusNotFound)
	}
	return p, core.Proceed
}

// fullName returns the file name of a path: $request_filename. It returns false where alias would
// lead beside its directory, because only one of the two ends in a slash. nginx has this hole:
// /i../x becomes images/../x.
func (f *fileSet) fullName(x *core.Exchange, path string) (string, bool) {
	root := f.root.Eval(x)
	if root == "" {
		return "", false
	}
	if !f.alias {
		return strings.TrimSuffix(root, "/") + path, true
	}
	rest, ok := "", false
	switch {
	case f.prefix != "":
		if rest, ok = strings.CutPrefix(path, f.prefix); !ok {
			rest = path
		}
	case path != x.Path: // a file of try_files
		rest = path
	default:
		rest = x.TriedFile
	}
	switch slash := strings.HasSuffix(root, "/"); {
	case rest == "", slash && rest[0] != '/', !slash && rest[0] == '/':
		return root + rest, true
	case slash:
		return root + rest[1:], true
	}
	return "", false
}

// filesKey is all that the files of locations differ in.
type filesKey struct {
	rules  *core.Rules
	isUsed bool   // the directory is opened; otherwise only variables and error pages refer to it
	prefix string // of paths, which Alias replaces
}

// compileFiles compiles the files of a location, or returns those of another one with the same key.
func compileFiles(c *core.Compiler, loc *core.Location, from *conf.Location) *fileSet {
	key := filesKey{rules: loc.Rules, isUsed: from.TryFiles != nil || loc.Content == nil}
	if s := &loc.Settings.Files; s.Alias != "" {
		if key.prefix = s.AliasPath; key.prefix == "" && loc.Pattern == nil {
			key.prefix = from.Path
		}
	}
	return core.Shared(c, key, func() *fileSet { return newFiles(c, key) })
}

func newFiles(c *core.Compiler, key filesKey) *fileSet {
	s := &key.rules.Settings.Files
	f := &fileSet{types: key.rules.Types, prefix: key.prefix, alias: s.Alias != "", from: key.rules.LinksFrom}
	if !slices.Contains([]string{"", "html", "json"}, s.ListingFormat) {
		c.Failf("autoindex_format: invalid format %q: want html or json", s.ListingFormat)
	}
	index := s.Index
	if index == nil {
		index = []conf.Text{"index.html"}
	}
	root := cmp.Or(s.Alias, s.Root)
	f.index, f.root = c.Texts("index", index), c.Text("root", root)
	f.config = files.Config{
		Index: []string{}, Dotfiles: true, ByPath: true,
		Compress: files.Compress{Siblings: s.Precompressed != nil, SiblingCodings: s.Precompressed,
			AlwaysCodings: s.PrecompressedAlways},
		DisableSymlinks: s.DisableSymlinks, NoEtag: s.NoEtag, Selector: key.rules.Selector(),
	}
	if root != "" {
		openRoot(c, f, key.isUsed)
	}
	return f
}

// openRoot opens the handler of a location's directory. Variables may only add to it.
func openRoot(c *core.Compiler, f *fileSet, used bool) {
	dir := f.root.Literal
	switch {
	case !f.root.Constant():
		dir = f.root.Parts[0].Literal
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
	case f.alias && !strings.HasSuffix(dir, "/"): // it may be a file
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
	}
	f.dir = strings.TrimRight(dir, "/")
	if f.root.Constant() && !filepath.IsAbs(f.root.Literal) {
		c.Failf("root: %q is not absolute", f.root.Literal)
	}
	if !used {
		return
	}
	f.config.Dir, f.config.Limits = f.dir, fileLimits(c)
	if !f.from.Constant() {
		_, err := f.open(f.config) // those that requests need differ in SymlinksFrom only
		c.Check("", err)
		f.roots = newFileRoots()
		return
	}
	f.config.SymlinksFrom = f.from.Literal
	// handlers differ in the configuration and the types, which it does not have yet
	key := fmt.Sprintf("%#v %s", f.config, f.types.Key)
	var err error
	f.handler, err = core.AcquireForPlan(c, &c.State.Files, key,
		func() (*files.Handler, error) { return f.open(f.config) }, func(h *files.Handler) { _ = h.Close() })
	c.Check("", err)
}

func (f *fileSet) open(config files.Config) (*files.Handler, error) {
	config.TypeOf = f.types.TypeOf
	return files.New(config)
}

func documentRoot(x *core.Exchange) string { return filesOf(x).root.Eval(x) }
