//go:build race && linux

package poll

import "syscall"

// The race detector knows of no system call. Package syscall tells it that whatever
// was written before is seen by whoever reads after, so that programs may order
// their goroutines by a conversation, as tests of servers do. Calls for no bytes do
// nothing but that; received and sending make them in race builds.

func received(fd int) { _, _ = syscall.Read(fd, nil) }

func sending() { _, _ = syscall.Write(-1, nil) }
