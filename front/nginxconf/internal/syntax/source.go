package syntax

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

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
	text, err := io.ReadAll(io.LimitReader(f, int64(maxBytes-s.bytes)+1))
	if err != nil {
		return nil, err
	}
	s.files++
	s.bytes += len(text)
	if s.bytes > maxBytes {
		return nil, fmt.Errorf("%s: the configuration is larger than %d MB", name, maxBytes>>20)
	}
	return text, nil
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
