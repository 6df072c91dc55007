//go:build !unix

package fleet

import "os/exec"

// separate does nothing: process groups are unix's.
func separate(*exec.Cmd) {}
