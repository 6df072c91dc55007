package cache_test

import "syscall"

// mount mounts a file system of one megabyte.
func mount(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m") }

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
