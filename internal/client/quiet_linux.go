package client

import "github.com/tarehq/tare/internal/poll"

// maxQuiet is the maximum number of sockets that quietEach checks.
const maxQuiet = poll.MaxQuiet

func isQuiet(fd int) bool { return poll.Quiet(fd) }

// quietEach checks several sockets at once, and sets the elements of quiet.
func quietEach(fds []int, quiet []bool) { poll.QuietEach(fds, quiet) }
