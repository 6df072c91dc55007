package nginxconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// maxFiles and maxBytes bound what a configuration is read from, in all.
	maxFiles = 5_000
	maxBytes = 32 << 20
)

// errUnreadable is a file that cannot be read.
var errUnreadable = errors.New("nginxconf: a file cannot be read")

// source is where files are read: a file system, or if it is nil the system's.
type source struct {
	fsys  fs.FS
	files int
	bytes int
}

// full reports whether no more may be read.
func (s *source) full() bool { return s.files >= maxFiles || s.bytes >= maxBytes }

// unreadable is an error about a file.
type unreadable struct{ err error }

func (u unreadable) Error() string   { return u.err.Error() }
func (u unreadable) Unwrap() []error { return []error{errUnreadable, u.err} }

// read returns what is in a file.
func (s *source) read(name string) ([]byte, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, unreadable{err}
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, int64(maxBytes-s.bytes)+1))
	if err != nil {
		return nil, unreadable{err}
	}
	s.files++
	s.bytes += len(text)
	if s.bytes > maxBytes {
		return nil, unreadable{fmt.Errorf("%s: more than %d MB are read", name, maxBytes>>20)}
	}
	return text, nil
}

func (s *source) open(name string) (fs.File, error) {
	if s.fsys == nil {
		if info, err := os.Stat(name); err == nil && info.Mode().Type() == fs.ModeNamedPipe && s.files > 0 {
			return nil, fmt.Errorf("%s: a named pipe, for which reading would wait: want a file", name)
		}
		return os.Open(name)
	}
	return s.fsys.Open(inside(name))
}

// inside is a path as a file system has it.
func inside(name string) string {
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// glob returns the files that a pattern describes, sorted. As in a shell, a star does not stand for a leading dot.
func (s *source) glob(pattern string) ([]string, error) {
	var found []string
	var err error
	translated := strings.ReplaceAll(pattern, "[!", "[^")
	if s.fsys == nil {
		found, err = filepath.Glob(translated)
	} else if found, err = fs.Glob(s.fsys, inside(translated)); path.IsAbs(pattern) {
		for i := range found {
			found[i] = "/" + found[i]
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no pattern: %w", pattern, err)
	}
	shown := found[:0]
	for _, name := range found {
		if !strings.HasPrefix(filepath.Base(name), ".") || strings.HasPrefix(filepath.Base(pattern), ".") {
			shown = append(shown, name)
		}
	}
	return shown, nil
}
