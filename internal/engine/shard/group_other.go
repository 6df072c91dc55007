//go:build !linux

package shard

import (
	"context"
	"errors"
	"net"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// Group is empty where there are no shards.
type Group struct{}

// Supports reports whether shards can accept a listener's connections.
func Supports(net.Listener) bool { return false }

// NewGroup fails where there are no shards.
func NewGroup(*exchange.ServerState, func()) (*Group, error) { return nil, errors.ErrUnsupported }

// There is no Group whose methods could be called.

func (*Group) Accept(*Config, <-chan struct{}) func() error  { return nil }
func (*Group) Adopt(*Config, net.Conn, context.Context) bool { return false }
func (*Group) Open() int64                                   { return 0 }
func (*Group) CloseIdle() int                                { return 0 }
func (*Group) CloseAll()                                     {}
func (*Group) MakeRoom(error)                                {}
func (*Group) Stop()                                         {}
