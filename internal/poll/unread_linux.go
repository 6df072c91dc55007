package poll

import (
	"syscall"
	"unsafe"
)

// Unread returns how many bytes have arrived on a socket and were not read.
func Unread(fd int) (int, error) {
	var n int32
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
