package front

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/uri"
)

// fileSet is the content of a location that serves files.
type fileSet struct {
	root   text   // or Alias
	alias  bool   // root is an Alias
	prefix string // of paths, which alias replaces; "" with a regular expression

	dir         string         // the part of root without variables
	handler     *files.Handler // for dir
	from        text           // disable_symlinks from=, if that has variables
	roots       *fileRoots     // handlers by from; nil if from is constant
	handlerKind handlerKind    // of handler and roots

	index         []text
	listing       listing
	precompressed []precompressed
	types         *mediaTypes
}

// filesModule serves files: root, alias, index, autoindex, and others. They are the content of
// locations without another one.
func filesModule() module {
	return module{
		location: func(c *compiler, loc *location, from *conf.Location) error {
			f, err := c.files(loc, from)
			if err != nil {
				return err
			}
			if loc.files = f; loc.content == nil {
				loc.content = f
			}
			return nil
		},
		variables: func(slot) map[string]knownVariable {
			return map[string]knownVariable{
				"document_root":    {get: documentRoot},
				"realpath_root":    {get: realpathRoot},
				"request_filename": {get: requestFilename},
			}
		},
	}
}

// filesOf returns the files of the exchange's location.
func filesOf(x *exchange) *fileSet {
	if f, ok := x.loc.files.(*fileSet); ok {
		return f
	}
	return new(fileSet)
}

// filePlace is a name below the directory of a handler.
type filePlace struct {
	handler *files.Handler
	name    string
	release func() // nil if nothing has to be released
}

func (p *filePlace) leave() {
	if p.release != nil {
		p.release()
	}
}

// serve responds with a file or a directory. As in nginx methods that do not read get 405, but POST
// only if the file exists.
func (f *fileSet) serve(x *exchange) outcome {
	switch x.method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		return x.fail(http.StatusMethodNotAllowed)
	}
	if strings.HasSuffix(x.path, "/") {
		return f.directory(x)
	}
	p, out := f.findPath(x)
	if out != proceed {
		return out
	}
	defer p.leave()
	if isDir := strings.HasSuffix(p.name, "/"); isDir || x.method == http.MethodPost { // alias may be a directory
		kind := p.handler.Kind(p.name)
		if isDir && kind == files.File {
			kind = files.Nothing
		}
		return f.serveUnreadable(x, kind)
	}
	f.setType(x, p.name)
	r := x.withConditions(x.fileRequest(), "", 0)
	if x.editsBody() { // otherwise the type need not be known
		r = x.withoutRange(r, f.types.typeOf(x.path))
	}
	switch status := f.servePath(x, r, &p); status {
	case 0:
		return responded
	case http.StatusMovedPermanently:
		return f.redirectToSlash(x)
	case http.StatusBadRequest: // a path above the root does not exist
		status = http.StatusNotFound
		fallthrough
	default:
		f.logUnreadable(x, status)
		return x.fail(status)
	}
}

// logUnreadable logs, in nginx's words, why a file is not sent.
func (f *fileSet) logUnreadable(x *exchange, status int) {
	why := unreadable(x, status)
	if why == "" || !x.errorLog().isEnabled(levelError) {
		return
	}
	full, _ := f.fullName(x, x.path)
	x.errorf(levelError, "open() %q failed %s", full, why)
}

// logNoIndex logs, in nginx's words, why an index is not sent.
func (f *fileSet) logNoIndex(x *exchange, index string, status int) {
	why := unreadable(x, status)
	if why == "" || !x.errorLog().isEnabled(levelError) {
		return
	}
	full, _ := f.fullName(x, x.path+index)
	what := "is not found"
	if status == http.StatusForbidden {
		what = "is forbidden"
	}
	x.errorf(levelError, "%q %s %s", full, what, why)
}

// unreadable returns the system's error for a status, or "" if it is not logged.
func unreadable(x *exchange, status int) string {
	switch {
	case status == http.StatusForbidden:
		return "(13: Permission denied)"
	case status == http.StatusNotFound && !x.loc.settings.NoLogNotFound:
		return "(2: No such file or directory)"
	}
	return ""
}

// serveUnreadable responds where a file is not sent.
func (f *fileSet) serveUnreadable(x *exchange, kind files.Kind) outcome {
	switch kind {
	case files.File:
		return x.fail(http.StatusMethodNotAllowed)
	case files.Directory:
		return f.redirectToSlash(x)
	case files.Denied:
		return x.fail(http.StatusForbidden)
	}
	return x.fail(http.StatusNotFound)
}

// redirectToSlash redirects the client to the path of a directory.
func (f *fileSet) redirectToSlash(x *exchange) outcome {
	return x.sendRedirect(http.StatusMovedPermanently, uri.WithQuery(uri.EscapePath(x.path+"/"), x.args))
}

// directory redirects internally to the index of a directory, or lists the directory.
func (f *fileSet) directory(x *exchange) outcome {
	p, out := f.findPath(x)
	if out != proceed {
		return out
	}
	defer p.leave()
	isChecked := false
	for i := range f.index {
		name := f.index[i].eval(x)
		if x.regexTimedOut {
			return x.fail(http.StatusInternalServerError)
		}
		if strings.HasPrefix(name, "/") {
			return x.redirect(name, x.args)
		}
		if name == "" {
			continue
		}
		to := x.path + name
		file := to
		if p.name != x.path {
			file = p.name + name
		}
		switch p.handler.Kind(file) {
		case files.File:
			return x.redirect(to, x.args)
		case files.Denied:
			f.logNoIndex(x, name, http.StatusForbidden)
			return x.fail(http.StatusForbidden)
		}
		// the directory has no index by another name either
		if !isChecked && p.directoryStatus() != http.StatusOK {
			f.logNoIndex(x, name, http.StatusNotFound)
			return x.fail(http.StatusNotFound)
		}
		isChecked = true
	}
	if !isChecked {
		if status := p.directoryStatus(); status != http.StatusOK {
			f.logUnreadable(x, status)
			return x.fail(status)
		}
	}
	if !f.listing.isOn || x.method == http.MethodPost {
		f.logForbidden(x)
		return x.fail(http.StatusForbidden)
	}
	return f.list(x, &p)
}

// logForbidden logs that a directory is neither listed nor has an index.
func (f *fileSet) logForbidden(x *exchange) {
	if x.errorLog().isEnabled(levelError) {
		full, _ := f.fullName(x, x.path)
		x.errorf(levelError, "directory index of %q is forbidden", full)
	}
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
func (x *exchange) fileRequest() *http.Request {
	if x.errorStatus == 0 && x.method == x.r.Method && x.parent == nil {
		return x.r
	}
	method := x.method
	if x.discardsBody() {
		method = http.MethodHead
	}
	header := make(http.Header)
	if v := x.r.Header["Accept-Encoding"]; v != nil {
		header["Accept-Encoding"] = v
	}
	return &http.Request{Method: method, URL: &url.URL{RawQuery: x.args}, Header: header}
}

// setType sets the type of the path if alias gives the file another extension.
func (f *fileSet) setType(x *exchange, name string) {
	if f.alias && extension(x.path) != extension(name) {
		x.w.Header()["Content-Type"] = []string{f.types.typeOf(x.path)}
	}
}

// kind returns the kind of file that a path leads to.
func (f *fileSet) kind(x *exchange, path string) files.Kind {
	p, ok := f.find(x, path)
	if !ok {
		return files.Nothing
	}
	defer p.leave()
	return p.handler.Kind(p.name)
}

// find returns the place that a path leads to, or false.
func (f *fileSet) find(x *exchange, path string) (p filePlace, ok bool) {
	if !f.alias && !strings.HasPrefix(path, "/") { // it would be beside the root
		return p, false
	}
	if !f.alias && f.root.constant() {
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
	if f.roots != nil {
		return f.roots.find(f, p, f.from.eval(x)), true
	}
	p.handler = f.handler
	return p, p.handler != nil
}

// findPath finds the exchange's path, or fails.
func (f *fileSet) findPath(x *exchange) (filePlace, outcome) {
	p, ok := f.find(x, x.path)
	switch {
	case x.regexTimedOut:
		p.leave()
		return p, x.fail(http.StatusInternalServerError)
	case !ok:
		return p, x.fail(http.StatusNotFound)
	}
	return p, proceed
}

// fullName returns the file name of a path: $request_filename. It returns false where alias would
// lead beside its directory, because only one of the two ends in a slash. nginx has this hole:
// /i../x becomes images/../x.
func (f *fileSet) fullName(x *exchange, path string) (string, bool) {
	root := f.root.eval(x)
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
	case path != x.path: // a file of try_files
		rest = path
	default:
		rest = x.triedFile
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
	rules  *rules
	isUsed bool   // the directory is opened; otherwise only variables and error pages refer to it
	prefix string // of paths, which Alias replaces
}

// files compiles the files of a location, or returns those of another one with the same key.
func (c *compiler) files(loc *location, from *conf.Location) (*fileSet, error) {
	key := filesKey{rules: loc.rules, isUsed: from.TryFiles != nil || servesFiles(from)}
	if s := &loc.settings.Files; s.Alias != "" {
		if key.prefix = s.AliasPath; key.prefix == "" && loc.pattern == nil {
			key.prefix = from.Path
		}
	}
	return shared(c, key, func() (*fileSet, error) { return c.newFiles(key) })
}

func (c *compiler) newFiles(key filesKey) (*fileSet, error) {
	settings := key.rules.settings
	s := &settings.Files
	f := &fileSet{types: key.rules.types, precompressed: precompressedOf(s),
		prefix: key.prefix, alias: s.Alias != "", from: key.rules.links.trusted}
	var err error
	if f.listing, err = newListing(s); err != nil {
		return nil, err
	}
	index := s.Index
	if index == nil {
		index = []conf.Text{"index.html"}
	}
	if f.index, err = c.texts(index); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	root := cmp.Or(s.Alias, s.Root)
	if f.root, err = c.text(root); err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	f.handlerKind = handlerKind{
		listing: s.Listing, siblings: strings.Join(s.Precompressed, " "), disableSymlinks: s.DisableSymlinks,
		noEtag: s.NoEtag, modifiedExact: settings.ModifiedSince == "", maxRanges: settings.MaxRanges,
	}
	if root == "" {
		return f, nil
	}
	return f, c.openRoot(f, key.isUsed)
}

// servesFiles reports whether files are the content of a location.
func servesFiles(l *conf.Location) bool { return l.Proxy == nil && !l.Status && !l.Metrics && !l.Empty }

// openRoot opens the handler of a location's directory. Variables may only add to it.
func (c *compiler) openRoot(f *fileSet, used bool) error {
	dir := f.root.literal
	switch {
	case !f.root.constant():
		dir = f.root.parts[0].literal
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
	case f.alias && !strings.HasSuffix(dir, "/"): // it may be a file
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
	}
	f.dir = strings.TrimRight(dir, "/")
	if f.root.constant() && !filepath.IsAbs(f.root.literal) {
		return fmt.Errorf("root: %q is not absolute", f.root.literal)
	}
	if !used {
		return nil
	}
	f.handlerKind.dir, f.handlerKind.limits = f.dir, c.fileLimits()
	open := func() (*files.Handler, error) { return f.handlerKind.open(f.types) }
	if !f.from.constant() {
		probe, err := open() // those that requests need differ in symlinksFrom only
		if err != nil {
			return err
		}
		_ = probe.Close()
		f.roots = newFileRoots()
		c.plan.releases = append(c.plan.releases, f.roots.close)
		return nil
	}
	f.handlerKind.symlinksFrom = f.from.literal
	at, release, err := acquire(&c.state.files, handlerKey{f.handlerKind, f.types.key}, open,
		func(h *files.Handler) { _ = h.Close() })
	if err != nil {
		return err
	}
	c.plan.releases = append(c.plan.releases, release)
	f.handler = at
	return nil
}

// handlerKind is all that the handlers of directories differ in, besides the media types.
type handlerKind struct {
	dir                           string
	listing                       bool
	siblings                      string // codings, separated by spaces
	disableSymlinks, symlinksFrom string
	noEtag, modifiedExact         bool
	maxRanges                     int
	limits                        files.Limits
}

// handlerKey identifies a handler, also for later plans.
type handlerKey struct {
	handlerKind
	types string // their fingerprint
}

// open opens a handler.
func (k *handlerKind) open(types *mediaTypes) (*files.Handler, error) {
	return files.New(files.Config{
		Dir: k.dir, Index: []string{}, Listing: k.listing, Dotfiles: true, HideDotfiles: true,
		Compress: files.Compress{Siblings: k.siblings != "", SiblingCodings: strings.Fields(k.siblings)},
		ByPath:   true, DisableSymlinks: k.disableSymlinks, SymlinksFrom: k.symlinksFrom, NoEtag: k.noEtag,
		TypeOf: types.typeOf, ModifiedExact: k.modifiedExact, MaxRanges: k.maxRanges, Limits: k.limits,
	})
}

func documentRoot(x *exchange) string { return filesOf(x).root.eval(x) }

func realpathRoot(x *exchange) string {
	path, err := filepath.EvalSymlinks(documentRoot(x))
	if err != nil {
		return ""
	}
	return path
}

func requestFilename(x *exchange) string {
	full, _ := filesOf(x).fullName(x, x.path)
	return full
}
