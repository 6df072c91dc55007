//go:build !linux

package shard

import (
	"context"
	"errors"
	"net"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// shard is empty where there are no shards.
type shard struct{}

// Group is empty where there are no shards.
type Group struct{}

// Supports reports whether shards can accept a listener's connections.
func Supports(net.Listener) bool { return false }

// NewGroup fails where there are no shards.
func NewGroup(*exchange.ServerState, func()) (*Group, error) { return nil, errors.ErrUnsupported }

// Accept returns nil.
func (*Group) Accept(*Config, <-chan struct{}) func() error { return nil }

// Adopt returns false.
func (*Group) Adopt(*Config, net.Conn, context.Context) bool { return false }

// Open returns 0.
func (*Group) Open() int64 { return 0 }

// CloseIdle returns 0.
func (*Group) CloseIdle() int { return 0 }

// CloseAll does nothing.
func (*Group) CloseAll() {}

// MakeRoom does nothing.
func (*Group) MakeRoom(error) {}

// StopIfDone does nothing.
func (*Group) StopIfDone() {}

// Stop does nothing.
func (*Group) Stop() {}
