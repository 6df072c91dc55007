//go:build !unix

package agent

import "time"

// processTime returns 0: the CPU time of this process is unknown.
func processTime() time.Duration { return 0 }
