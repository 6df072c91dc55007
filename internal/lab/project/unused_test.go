package project

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// unpackFor unpacks the project of a version.
func unpackFor(t *testing.T, cache, version string) *Unpacked {
	t.Helper()
	u, err := Unpack(cache, Source{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// age makes a folder one that was last used some time ago.
func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(dir, at, at); err != nil {
		t.Error(err)
	}
}

// Folders of the cache that were not used for long are removed, unless a process uses them or they
// are not of a project.
func TestUnusedFoldersAreRemoved(t *testing.T) {
	testkit.Long(t, "it unpacks the project")
	const longAgo, recently = maxUnused + time.Hour, maxUnused - time.Hour
	cache := t.TempDir()
	unused, inUse, recent := unpackFor(t, cache, "v1"), unpackFor(t, cache, "v2"), unpackFor(t, cache, "v3")
	for _, u := range []*Unpacked{unused, recent} {
		if err := u.Close(); err != nil {
			t.Fatal(err)
		}
	}
	foreign, killed := filepath.Join(cache, "debian"), filepath.Join(cache, workPrefix+"1")
	for _, dir := range []string{foreign, killed} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{unused.Root, inUse.Root, foreign, killed} {
		age(t, dir, longAgo)
	}
	age(t, recent.Root, recently)
	last := unpackFor(t, cache, "v4")
	defer last.Close()
	wantFolders(t, cache, foreign, inUse.Root, recent.Root, last.Root)
	if err := inUse.Close(); err != nil {
		t.Fatal(err)
	}
	defer unpackFor(t, cache, "v4").Close()
	wantFolders(t, cache, foreign, recent.Root, last.Root)
	age(t, recent.Root, longAgo)
	defer unpackFor(t, cache, "v3").Close() // which is used again before it is removed
	wantFolders(t, cache, foreign, recent.Root, last.Root)
}

func wantFolders(t *testing.T, cache string, want ...string) {
	t.Helper()
	found, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, filepath.Join(cache, f.Name()))
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("in the cache: %q, want %q", names, want)
	}
}

// A project is complete until it is closed, even if other processes remove and unpack it at once.
func TestOpenProjectIsComplete(t *testing.T) {
	testkit.Long(t, "it unpacks the project")
	cache := t.TempDir()
	all, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for j := range 10 {
				u, err := Unpack(cache, Source{Version: []string{"v1", "v2"}[(i+j)%2]})
				if err != nil {
					t.Error(err)
					return
				}
				age(t, u.Root, 2*maxUnused)
				removeUnused(cache)
				for _, f := range all {
					if _, err := os.Stat(filepath.Join(u.Root, f.name)); err != nil {
						t.Error(err)
						break
					}
				}
				if err := u.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
