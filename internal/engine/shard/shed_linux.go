package shard

import "time"

// MakeRoom closes a connection if an error means that descriptors have run out. g may be nil.
func (g *Group) MakeRoom(err error) {
	if g != nil && outOfDescriptors(err) {
		g.shed()
	}
}

// shed makes room for a new connection when descriptors have run out. It ends the one that has
// lingered longest, if any does, and otherwise closes an idle one.
func (g *Group) shed() {
	var oldest *shardConn
	var since instant
	g.lingering.Range(func(conn, began any) bool {
		if oldest == nil || began.(instant) < since {
			oldest, since = conn.(*shardConn), began.(instant)
		}
		return true
	})
	if oldest == nil {
		g.shedIdle()
		return
	}
	g.lingering.Delete(oldest) // so that the next call ends another one
	oldest.shutdown()
}

// shedIdle closes the connection that has been quiet longest among a sample of those that wait for
// a request. Each call takes another sample. Without TLS, a request that has arrived and waits for
// a busy shard is not lost. With TLS, unread bytes may be a part of a first message, whose rest
// never comes.
func (g *Group) shedIdle() {
	const sample = 128
	var longest *shardConn
	var waited time.Duration
	n := 0
	g.shedding.Lock()
	defer g.shedding.Unlock()
	for fd, k := range g.conns.from(g.shedFrom) {
		if !k.state.is(stateWaiting) {
			continue
		}
		if h := k.session.Load(); h != nil && !h.session.IsIdle() {
			continue
		}
		if w := k.quietFor(); (longest == nil || w > waited) && (k.tls != nil || k.isQuiet()) {
			longest, waited = k, w
		}
		if n++; n == sample {
			g.shedFrom = fd + 1
			break
		}
	}
	if longest != nil {
		longest.closeWaiting()
	}
}
