//go:build !linux

package files

import "os"

// openAny opens what is a regular file or a directory; opening anything else might wait. Between the
// two looks another process could put a pipe there: where the system has the flag, that does not wait either.
func (t *tree) openAny(name string) (f *os.File, plain bool, err error) {
	info, err := t.root.Stat(name)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, false, errIrregular
	}
	f, err = t.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	return f, false, err
}
