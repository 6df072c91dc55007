package files

import (
	"io/fs"
	"time"
)

// stamp tells a file, as it is now, from all others and from itself as it was.
type stamp struct {
	device, inode, links uint64 // zero where the system has none
	size                 int64
	modified, changed    int64 // nanoseconds since 1970; changed is zero where the system has none
}

// settle is how long after a change another one cannot have the same time. Kernels write down times that
// are up to ten milliseconds old.
const settle = 100 * time.Millisecond

// ripe reports whether a change that comes now would be seen in the stamp.
func (s stamp) ripe(now time.Time) bool {
	age := time.Duration(now.UnixNano() - max(s.modified, s.changed))
	return age >= settle || age <= -settle // a clock that is another's
}

// sameBytes reports whether a file that was s and is t has not been written to. It may have got
// another name, or lost its own.
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

// Version tells a file from others, and from itself before a change. It is comparable.
type Version struct{ s stamp }

// VersionOf returns the version of the file that info is about.
func VersionOf(info fs.FileInfo) Version { return Version{newStamp(info)} }

// Settled reports whether every change from now on shows in the version. For a moment after a change another one has the same times.
func (v Version) Settled(now time.Time) bool { return v.s.ripe(now) }
