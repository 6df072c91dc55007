//go:build race && linux

package poll

import "syscall"

// The race detector does not know raw system calls. Package syscall informs it that whatever was
// written before a send is visible after the receive. Programs, such as tests of servers, may
// therefore order their goroutines by messages over a socket. received and sending do the same by
// calls for no bytes, in race builds only.

func received(fd int) { _, _ = syscall.Read(fd, nil) }

func sending() { _, _ = syscall.Write(-1, nil) }
