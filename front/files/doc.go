// Package files serves the files of a directory over any http.Server.
//
//	h, err := files.New(files.Config{Dir: "public", Compress: files.Compress{Gzip: true}})
//
// Small files are in memory, also compressed; of large ones, descriptors stay open. The numbers and
// bytes of both are limited. On Linux, inotify reports changes. Elsewhere, and where the limits of
// watches are reached, files are checked every second.
//
// No path and no symbolic link leads out of the directory: files are opened by openat2 with
// RESOLVE_BENEATH, or by os.Root. Only regular files and directories are ever read, and checking
// anything else never blocks.
//
// A response never mixes bytes of two versions of a file. If a large file changes while it is sent,
// the connection is closed before the last bytes.
package files
