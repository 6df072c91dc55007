package files

import (
	"io/fs"
	"time"
)

// stamp identifies a version of a file.
type stamp struct {
	device, inode     uint64 // zero if the system has none
	size              int64
	modified, changed int64 // nanoseconds since 1970; changed is zero if the system has none
}

// settle is the time after a change when another change cannot have the same time. Kernels record
// times that are up to ten milliseconds old.
const settle = 100 * time.Millisecond

// Settled reports whether the stamp would show a change from now on. Shortly after a change,
// another one may have the same times.
func (s stamp) Settled(now time.Time) bool {
	age := time.Duration(now.UnixNano() - max(s.modified, s.changed))
	return age >= settle || age <= -settle // another machine's clock
}

// sameBytes reports whether a file has not been written to between s and t. It may have been
// renamed or removed.
func (s stamp) sameBytes(t stamp) bool {
	return s.size == t.size && s.modified == t.modified && s.inode == t.inode && s.device == t.device
}

func stampOf(f source) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	return newStamp(info), nil
}

// stampIf returns the stamp of a file, or zero if there is an error.
func stampIf(info fs.FileInfo, err error) stamp {
	if err != nil {
		return stamp{}
	}
	return newStamp(info)
}

// Version identifies a version of a file. It is comparable.
type Version = stamp

// VersionOf returns the version of the file that info describes.
func VersionOf(info fs.FileInfo) Version { return newStamp(info) }
