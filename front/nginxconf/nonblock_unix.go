//go:build unix

package nginxconf

import "syscall"

const nonblock = syscall.O_NONBLOCK
