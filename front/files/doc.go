// Package files serves the files of a directory over any http.Server.
//
//	h, err := files.New(files.Config{Dir: "public", Compress: files.Compress{Gzip: true}})
//
// Small files are in memory, also compressed, as far as Limits allow. On Linux, inotify reports
// changes. Elsewhere, behind symbolic links and for hard links, a file is checked before a response if
// the last check was a millisecond ago. New encoded variants are then found within a second.
//
// No path and no symbolic link leads out of the directory: files are opened by openat2 with
// RESOLVE_BENEATH, or by os.Root. Only regular files and directories are ever read, and checking
// anything else never blocks.
//
// A response never mixes bytes of two versions of a file. If a large file changes while it is sent,
// the connection is closed before the last bytes.
package files
