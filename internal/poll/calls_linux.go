//go:build !386 && !s390x

package poll

import "syscall"

// Numbers of system calls.
const (
	sysRecvfrom   = syscall.SYS_RECVFROM
	sysSendto     = syscall.SYS_SENDTO
	sysSendmsg    = syscall.SYS_SENDMSG
	sysGetsockopt = syscall.SYS_GETSOCKOPT
	sysAccept4    = syscall.SYS_ACCEPT4
	sysShutdown   = syscall.SYS_SHUTDOWN
)
