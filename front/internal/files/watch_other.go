//go:build !linux

package files

import "errors"

// watcher does not exist here.
type watcher struct{}

func newWatcher(*tree, string, int, func(dir, name string, directory bool)) (*watcher, error) {
	return nil, errors.New("files: this system does not support watching directories")
}

func (*watcher) err() error        { return nil }
func (*watcher) close()            {}
func (*watcher) events() uint64    { return 0 }
func (*watcher) cover(string) bool { return false }
