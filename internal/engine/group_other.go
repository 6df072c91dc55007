//go:build !linux

package engine

import "net"

// shardState is the part of a conn that belongs to a shard's runner.
type shardState struct{}

// placement is empty where there are no shards.
type placement struct{}

// group is empty where there are no shards.
type group struct{}

func (s *Server) socketAcceptor(*serveConfig, net.Listener) func() error { return nil }

func (*group) open() int64    { return 0 }
func (*group) closeIdle() int { return 0 }
func (*group) closeAll()      {}
func (*group) stop()          {}

// giveUpLead does nothing where no handler runs on a loop.
func (*conn) giveUpLead() {}
