package syntax

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxDepth limits nested blocks, maxNesting nested includes.
	maxDepth   = 100
	maxNesting = 20
)

// Parse reads a configuration with its includes into a tree of directives. It returns all errors in
// the text, or why the file cannot be read. report, if it is not nil, receives each file once.
func Parse(file string, source *Source, report func(name string, text []byte)) ([]*Directive, []*Error, error) {
	p := &parser{source: source, dir: filepath.Dir(file), report: report, reported: make(map[string]bool)}
	tree, err := p.file(file, 0, 0)
	return tree, p.errs, err
}

// parser reads statements into a tree. It continues after an error if possible.
type parser struct {
	source *Source
	dir    string // of relative includes
	number int
	looped bool // files include each other: no more are read
	errs   []*Error
	open   []*Directive // what was read of the blocks that have not ended

	report   func(name string, text []byte) // see Parse
	reported map[string]bool                // names
}

func (p *parser) file(name string, nesting, depth int) ([]*Directive, error) {
	text, err := p.source.Read(name)
	if err != nil {
		return nil, err
	}
	if p.report != nil && !p.reported[name] {
		p.reported[name] = true
		p.report(name, text)
	}
	tree, _ := p.block(&lexer{file: name, text: string(text), line: 1}, false, nesting, depth)
	return tree, nil
}

// block reads statements up to the end of a block or a file. It reports whether reading can
// continue after it.
func (p *parser) block(l *lexer, inside bool, nesting, depth int) ([]*Directive, bool) {
	before := len(p.open)
	ok := p.statements(l, inside, nesting, depth)
	tree := slices.Clone(p.open[before:])
	p.open = p.open[:before]
	return tree, ok
}

// statements appends the statements of a block to open. It reports whether reading can continue.
func (p *parser) statements(l *lexer, inside bool, nesting, depth int) bool {
	for {
		s, err := l.next()
		switch {
		case err != nil:
			return p.fail(err)
		case s.end == 0 && inside:
			return p.fail(l.errorf(s.pos, "unexpected end of file in a block (missing \"}\")"))
		case s.end == '}' && !inside:
			return p.fail(l.errorf(s.pos, "unexpected \"}\": no block is open"))
		case s.end == 0, s.end == '}':
			return true
		}
		d := &Directive{Name: s.words[0], Args: s.words[1:], Pos: s.pos, HasBlock: s.end == '{', Number: p.number}
		p.number++
		if d.HasBlock && !p.readBlock(l, d, nesting, depth) {
			p.open = append(p.open, d)
			return false
		}
		if d.Name != "include" || d.HasBlock || len(d.Args) != 1 {
			p.open = append(p.open, d)
			continue
		}
		p.open = append(p.open, p.include(d, nesting, depth)...)
	}
}

// fail records an error after what has been read so far. Nothing more can be read.
func (p *parser) fail(err *Error) bool {
	err.Number = p.number
	p.errs = append(p.errs, err)
	return false
}

func (p *parser) readBlock(l *lexer, d *Directive, nesting, depth int) (ok bool) {
	if strings.HasSuffix(d.Name, "_by_lua_block") {
		if err := l.skipBlock(); err != nil {
			return p.fail(err)
		}
		return true
	}
	if depth == maxDepth {
		return p.fail(l.errorf(d.Pos, "blocks nested %d deep (maximum: %d)", depth+1, maxDepth))
	}
	d.Block, ok = p.block(l, true, nesting, depth+1)
	return ok
}

// include reads the files of an include. A named file must exist; a pattern may match no file.
func (p *parser) include(d *Directive, nesting, depth int) []*Directive {
	if p.looped {
		return nil
	}
	name := d.Args[0]
	if !IsAbs(name) && p.dir != "." {
		name = strings.TrimSuffix(p.dir, "/") + "/" + name // as in nginx, names in messages are not cleaned
	}
	if nesting == maxNesting || p.source.full() {
		p.looped = true
		p.errs = append(p.errs, d.Errorf("includes nested %d deep, %d files in all (does a file include itself?)",
			nesting+1, p.source.files))
		return nil
	}
	names := []string{name}
	if strings.ContainsAny(name, "*?[") {
		var err error
		if names, err = p.source.glob(name); err != nil {
			p.errs = append(p.errs, d.Errorf("%v", err))
			return nil
		}
	}
	var tree []*Directive
	for _, name := range names {
		read, err := p.file(name, nesting+1, depth)
		if err != nil {
			p.errs = append(p.errs, d.Errorf("%v", err))
		}
		tree = append(tree, read...)
	}
	return tree
}

// IsAbs reports whether a path is absolute, on this system or on Unix.
func IsAbs(name string) bool { return filepath.IsAbs(name) || path.IsAbs(name) }

const (
	// maxFiles and maxBytes limit what a configuration is read from, in total.
	maxFiles = 5_000
	maxBytes = 32 << 20
)

// Source reads files from a file system; nil is the system's.
type Source struct {
	FS    fs.FS
	files int
	bytes int
}

// full reports whether a limit has been reached.
func (s *Source) full() bool { return s.files >= maxFiles || s.bytes >= maxBytes }

// Read returns the contents of a file.
func (s *Source) Read(name string) ([]byte, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var text bytes.Buffer
	if info, err := f.Stat(); err == nil {
		text.Grow(int(min(info.Size(), maxBytes)) + bytes.MinRead) // which ReadFrom needs to find the end
	}
	if _, err := text.ReadFrom(io.LimitReader(f, int64(maxBytes-s.bytes)+1)); err != nil {
		return nil, err
	}
	s.files++
	s.bytes += text.Len()
	if s.bytes > maxBytes {
		return nil, fmt.Errorf("%s: the configuration is larger than %d MB", name, maxBytes>>20)
	}
	return text.Bytes(), nil
}

func (s *Source) open(name string) (fs.File, error) {
	if s.FS == nil {
		if info, err := os.Stat(name); err == nil && info.Mode().Type() == fs.ModeNamedPipe && s.files > 0 {
			return nil, fmt.Errorf("%s: named pipe (must be a regular file)", name)
		}
		return os.Open(name)
	}
	return s.FS.Open(inside(name))
}

// inside converts a path for a file system.
func inside(name string) string {
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// glob returns the files that match a pattern, sorted. As in a shell, a star does not match a
// leading dot.
func (s *Source) glob(pattern string) ([]string, error) {
	var found []string
	var err error
	translated := strings.ReplaceAll(pattern, "[!", "[^")
	if s.FS == nil {
		found, err = filepath.Glob(translated)
	} else if found, err = fs.Glob(s.FS, inside(translated)); path.IsAbs(pattern) {
		for i := range found {
			found[i] = "/" + found[i]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("invalid pattern %q: %w", pattern, err)
	}
	visible := found[:0]
	for _, name := range found {
		if !strings.HasPrefix(filepath.Base(name), ".") || strings.HasPrefix(filepath.Base(pattern), ".") {
			visible = append(visible, name)
		}
	}
	return visible, nil
}
