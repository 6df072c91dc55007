//go:build !linux

package server

import "errors"

func limitFiles(uint64) error { return errors.New("only supported on Linux") }
