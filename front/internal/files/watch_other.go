//go:build !linux

package files

// watcher does not exist here.
type watcher struct{}

func newWatcher(*tree, string, int, func(dir, name string, directory bool)) *watcher { return nil }

func (*watcher) close()            {}
func (*watcher) events() uint64    { return 0 }
func (*watcher) cover(string) bool { return false }
