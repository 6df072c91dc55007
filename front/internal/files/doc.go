// Package files serves the files of a directory over any http.Server.
//
// # Requests
//
// If the path is a key of the cache and the request has no conditions, the response comes from
// memory: some fields and one Write. Everything else is the slow path. It normalizes the path
// (path.go), so that each place below the root has exactly one key. Then it opens, checks, reads
// and caches the file (find.go, load.go).
//
// # Cache
//
// A resource is what a path leads to: the file's bytes and its encoded variants. Small files are in
// memory; of large ones, descriptors stay open (descriptors.go). Numbers and bytes are limited. The
// cache evicts what was not requested recently (cache.go).
//
// # Changes
//
// On Linux, inotify watches the directories of cached resources, and the directories above. Some
// resources are checked every second: those behind symbolic links, with several hard links, or in a
// directory that cannot be watched. All others are checked every minute, because the kernel does
// not report changes by memory maps or over a network (watch_linux.go).
//
// With Config.ByPath nothing is watched. Each request checks the file's path, which costs at most
// one system call in 20 microseconds per file (bypath.go).
//
// # Guarantees
//
// No path and no symbolic link leads out of the root: files are opened by openat2 with
// RESOLVE_BENEATH, or by os.Root. With Config.ByPath links are followed, because nginx's
// configurations expect that.
//
// Only regular files and directories are ever read, and checking anything else never blocks.
//
// Bytes in memory belong to one moment: they are read between two checks of the file's times, and
// twice if the file has just changed. If a large file changes while it is sent, the connection is
// closed before the last bytes.
//
// # Words of this package
//
//   - place: a path below the root, after normalization.
//   - key: the shortest URL path of a place.
//   - stamp: what identifies a version of a file: device, inode, size and times.
//   - ripe: a stamp is ripe if a change from now on would alter it.
//   - variant: a resource in one content coding; identity is the file itself.
package files
