//go:build !linux

package cache_test

import "errors"

func mount(string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
