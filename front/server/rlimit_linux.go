package server

import "syscall"

func limitFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur, limit.Max = n, max(n, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
