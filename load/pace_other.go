//go:build !linux

package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

type timer struct{}

func newTimer(*poll.Poller) (*timer, error) { return nil, errors.ErrUnsupported }

func (*timer) set(time.Duration) {}

func (*timer) close() {}

type bell struct{}

func newBell(*poll.Poller) (*bell, error) { return nil, errors.ErrUnsupported }

func (*bell) ring() {}

func (*bell) close() {}
