// Package files serves the files of a directory over any http.Server.
//
// # What a request meets
//
// A path is checked first, in path.go: it names a place below the root in one way only. A resource that is
// cached, and for which the request asks nothing special, is then answered from memory: some fields and one
// Write. Everything else is the slow path, find.go: open, look, read, remember.
//
// # What is remembered
//
// A resource is what a path leads to: the file's own bytes and those of its encoded variants. Small ones are held
// in memory, of large ones descriptors are kept open (descriptors.go). All of it is bounded, by number and by bytes; what
// has not been asked for lately goes first (cache.go).
//
// # When it is forgotten
//
// On Linux the directories that resources were found in are watched by inotify, and those above them. What
// was reached by symbolic links, has several hard links, or lies in a directory that cannot be watched is
// looked at again every second, and everything else every minute, because the kernel does not tell of changes
// that come by memory maps or over a network (watch_linux.go).
//
// With Config.ByPath nothing is watched: each request looks at the file's path, which costs a system call in 20 microseconds at
// most for each file (bypath.go).
//
// # What never happens
//
// No path and no symbolic link leads out of the root: files are opened by openat2 with RESOLVE_BENEATH, or by
// os.Root. With Config.ByPath links are followed, because a configuration of nginx expects that. Nothing but regular files and directories is ever read, and to look at anything else does not
// block. Bytes in memory are those of one moment: they are read between two looks at the file's
// times, and twice if it has just been changed. A large file that changes while it is sent ends the
// connection before the last bytes.
package files
