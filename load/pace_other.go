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

type waker struct{}

func newWaker(*poll.Poller) (*waker, error) { return nil, errors.ErrUnsupported }

func (*waker) wake() {}

func (*waker) close() {}
