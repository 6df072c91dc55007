//go:build !linux

package load

import (
	"errors"
	"time"
)

type cpuTime struct{ user, sys time.Duration }

func threadTime() cpuTime { return cpuTime{} }

func bindThread(int) (undo func() error, err error) { return nil, errors.ErrUnsupported }
