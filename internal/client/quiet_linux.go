package client

import "github.com/tarehq/tare/internal/poll"

func isQuiet(fd int) bool { return poll.Quiet(fd) }
