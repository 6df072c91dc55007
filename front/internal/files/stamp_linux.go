package files

import (
	"os"
	"syscall"
)

func newStamp(info os.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device = uint64(sys.Dev) //nolint:unconvert // types differ between architectures
		s.inode = sys.Ino
		s.links = uint64(sys.Nlink) //nolint:unconvert // likewise
		s.changed = sys.Ctim.Nano()
	}
	return s
}
