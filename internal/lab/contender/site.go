package contender

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Sizes of the files that makeSite generates. Their content is the same on all machines and cannot
// be compressed.
const (
	largeBytes = 100 << 10 // of 100k.bin
	megaBytes  = 1 << 20   // of 1m.bin
	hugeBytes  = 10 << 20  // of 10m.bin
	smallBytes = 1 << 10   // of each small/N.html
)

// site returns the stage's copy of a site, and makes it on first use. An nginx worker of another
// user can read the copy wherever the project is.
func (s *Stage) site(from string) (string, error) {
	s.siteMu.Lock()
	defer s.siteMu.Unlock()
	if dir := s.sites[from]; dir != "" {
		return dir, nil
	}
	dir := filepath.Join(s.dir, fmt.Sprintf("site-%d", len(s.sites)+1))
	if err := makeSite(from, dir, s.small); err != nil {
		return "", fmt.Errorf("copying site %s: %w", from, errors.Join(err, os.RemoveAll(dir)))
	}
	s.sites[from] = dir
	return dir, nil
}

// makeSite copies the files of a folder into another and generates more: small is the number of
// small files. All have the modification time of the first one, because servers send it to clients.
func makeSite(from, to string, small int) error {
	kept, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var age time.Time
	if len(kept) > 0 {
		info, err := kept[0].Info()
		if err != nil {
			return err
		}
		age = info.ModTime()
	}
	if err := errors.Join(os.CopyFS(to, os.DirFS(from)), os.Mkdir(filepath.Join(to, "small"), 0o755)); err != nil {
		return err
	}
	bytes := make([]byte, hugeBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(bytes) // never fails
	made := map[string]int{"100k.bin": largeBytes, "1m.bin": megaBytes, "10m.bin": hugeBytes}
	for i := range small {
		made[fmt.Sprintf("small/%d.html", i)] = smallBytes
	}
	for name, n := range made {
		if err := os.WriteFile(filepath.Join(to, name), bytes[:n], 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, age, age)
	})
}

// has reports whether the Spec's folder has a file of a kind.
func (s *Spec) has(name string, kind func(fs.FileMode) bool) bool {
	info, err := os.Stat(filepath.Join(s.Dir, name))
	return err == nil && kind(info.Mode())
}
