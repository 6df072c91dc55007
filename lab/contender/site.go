package contender

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Files of a site that are made rather than kept in the project: their contents are the same
// everywhere, and cannot be compressed.
const (
	largeBytes = 100 << 10 // of 100k.bin
	hugeBytes  = 10 << 20  // of 10m.bin
	smallBytes = 1 << 10   // of each of small/0.html and on, as many as the stage was told
)

// site returns the folder that contenders serve whose Spec names one, and makes it if this is the
// first of them. It is ours, so that another user's nginx worker can read it wherever the
// project is.
func (s *Stage) site(from string) (string, error) {
	s.siteMu.Lock()
	defer s.siteMu.Unlock()
	if dir := s.sites[from]; dir != "" {
		return dir, nil
	}
	dir := filepath.Join(s.dir, fmt.Sprintf("site-%d", len(s.sites)+1))
	if err := MakeSite(from, dir, s.small); err != nil {
		return "", fmt.Errorf("the site to be served: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	s.sites[from] = dir
	return dir, nil
}

// MakeSite copies the files of a folder into another, and adds those that are made: so many small
// ones. All are as old as the first one: servers show their clients how old a file is.
func MakeSite(from, to string, small int) error {
	if err := os.MkdirAll(filepath.Join(to, "small"), 0o755); err != nil {
		return err
	}
	kept, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var age time.Time
	for _, entry := range kept {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if age.IsZero() {
			age = info.ModTime()
		}
		if err := makeFile(filepath.Join(to, entry.Name()), text, age); err != nil {
			return err
		}
	}
	bytes := make([]byte, hugeBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(bytes) // it never fails
	made := map[string]int{"100k.bin": largeBytes, "10m.bin": hugeBytes}
	for i := range small {
		made[fmt.Sprintf("small/%d.html", i)] = smallBytes
	}
	for name, n := range made {
		if err := makeFile(filepath.Join(to, name), bytes[:n], age); err != nil {
			return err
		}
	}
	return nil
}

// makeFile writes a file that everybody can read.
func makeFile(name string, text []byte, age time.Time) error {
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	return os.Chtimes(name, age, age)
}

// isFolder reports whether a Spec names a folder, relative to its own.
func (s *Spec) isFolder(name string) bool {
	info, err := os.Stat(filepath.Join(s.Dir, name))
	return err == nil && info.IsDir()
}
