//go:build unix && !linux

package files

import "syscall"

const nonblock = syscall.O_NONBLOCK
