//go:build 386 || s390x

package poll

// Numbers of system calls that package syscall lacks on these architectures: before Linux 4.3 all
// of them were one call, socketcall.
const (
	sysAccept4    = 364
	sysGetsockopt = 365
	sysSendto     = 369
	sysSendmsg    = 370
	sysRecvfrom   = 371
	sysShutdown   = 373
)
