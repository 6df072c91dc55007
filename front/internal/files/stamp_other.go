//go:build !linux

package files

import "os"

func newStamp(info os.FileInfo) stamp {
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
}
