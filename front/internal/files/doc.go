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
// memory; large ones are opened for each response, which costs at most 2 % of sending 300 KB.
// Numbers and bytes are limited. The cache evicts what was not requested recently (cache.go).
//
// # Changes
//
// A resource has the paths that it depends on, with their stamps: the file, its encoded variants,
// and what did not exist beside it. A request checks them if the last check is old: 20 microseconds
// if files are found by path, otherwise a millisecond, and a second for what did not exist
// (check.go). So a file that is often requested is seldom checked.
//
// On Linux, inotify counts the changes in the directories of a root that was opened once. While the
// count is that of the last check, no check is due: with ten thousand files in turn a request takes
// half the CPU time. Files behind links or with several names are checked all the same, and all are
// once a minute, for changes by memory maps and over networks (watch_linux.go).
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
