//go:build !linux

package files

import "errors"

// watcher is told of nothing here.
type watcher struct{}

func newWatcher(*tree, string, int, func(dir, name string, directory bool)) (*watcher, error) {
	return nil, errors.New("files: directories cannot be watched on this system")
}

func (*watcher) err() error        { return nil }
func (*watcher) close()            {}
func (*watcher) events() uint64    { return 0 }
func (*watcher) cover(string) bool { return false }
