package cache

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// index finds stored responses. Each shard has a lock, which is never held during I/O.
type index struct {
	seed      maphash.Seed
	shards    [shards]shard
	entries   atomic.Int64
	memory    atomic.Int64 // bytes
	disk      atomic.Int64
	maxMemory atomic.Int64
	maxDisk   atomic.Int64
	leases    leases
	discard   func(*file) // called without locks
}

const shards = 16

type shard struct {
	mu      sync.Mutex
	keys    map[keyID][]*entry // the responses of a key, the newest first
	flights map[flightKey]*flight

	// An entry in memory is in one of these: once for those requested once, again for those
	// requested again. So pages that are read once, as by a crawler, do not displace popular ones.
	once, again list
	writing     list // entries that are being written to disk, and cannot be evicted yet
	files       list

	dropped []*file // of entries that are gone: unlock discards them
}

// entry is a response's place in the cache. Its shard's lock guards its fields.
type entry struct {
	id      keyID
	variant uint64    // hash of its choices, if it has been read
	stored  *stored   // nil if the response is only on disk and was not read recently
	file    *file     // nil if the response is only in memory
	arrived time.Time // when the response was received; zero if it has not been read
	used    time.Time
	moved   time.Time // when the entry moved to the front
	inMem   links
	onDisk  links
}

func (x *index) init() {
	x.seed = maphash.MakeSeed()
	for i := range x.shards {
		s := &x.shards[i]
		s.keys, s.flights = make(map[keyID][]*entry), make(map[flightKey]*flight)
		memory := func(e *entry) *links { return &e.inMem }
		s.once.init(memory)
		s.again.init(memory)
		s.writing.init(memory)
		s.files.init(func(e *entry) *links { return &e.onDisk })
	}
}

func (x *index) shard(id keyID) *shard { return &x.shards[id[0]%shards] }

// slot returns a key's number in tables whose slots are shared.
func (id keyID) slot() uint64 { return binary.LittleEndian.Uint64(id[8:]) }

// find returns the stored response for a request with its entry, and the entries that must be read
// to decide.
func (x *index) find(id keyID, key string, request Fields, now time.Time) (e *entry, s *stored, unread []*entry) {
	known := make([]choice, 0, 4)
	for {
		e, s, unread, needed := x.match(id, key, known, now)
		if needed == "" {
			return e, s, unread
		}
		// without the lock: its variables may take long
		known = append(known, choice{needed, valueOf(request, needed)})
	}
}

// match is find for a request whose fields are known. It returns the name of another field if it
// needs one.
func (x *index) match(id keyID, key string, known []choice, now time.Time) (e *entry, s *stored, unread []*entry,
	needed string) {
	sh := x.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, candidate := range sh.keys[id] {
		c := candidate.stored
		switch {
		case c == nil:
			unread = append(unread, candidate)
			continue
		case c.key != key || s != nil && !c.life.received.After(s.life.received):
			continue
		}
		isChosen, needed := isChosen(c.choices, known)
		if needed != "" {
			return nil, nil, nil, needed
		}
		if isChosen {
			e, s = candidate, c
		}
	}
	if e != nil {
		x.touch(sh, e, now)
	}
	return e, s, unread, ""
}

// unlock unlocks a shard, and discards the files of the entries that were dropped meanwhile.
func (x *index) unlock(sh *shard) {
	files := sh.dropped
	sh.dropped = nil
	sh.mu.Unlock()
	for _, f := range files {
		x.discard(f)
	}
}

func (x *index) fileOf(e *entry) *file {
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return e.file
}

// written records the file of an entry; nil if writing failed. It returns false if the entry no
// longer needs the file.
func (x *index) written(e *entry, s *stored, f *file) bool {
	defer x.evict()
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ok := e.stored == s
	if e.inMem.list == &sh.writing {
		sh.once.push(e, e.inMem.bytes)
	}
	if ok && f != nil {
		e.file = f
		x.addFile(sh, e)
	}
	return ok
}

// touch records that an entry was requested.
func (x *index) touch(sh *shard, e *entry, now time.Time) {
	e.used = now
	if e.inMem.list == &sh.writing || e.inMem.list != &sh.once && now.Sub(e.moved) < touchEvery {
		return
	}
	e.moved = now
	if e.inMem.list != nil {
		sh.again.push(e, e.inMem.bytes)
		for most := x.maxMemory.Load() * protectedPart / 100 / shards; sh.again.bytes > most && sh.again.last() != e; {
			last := sh.again.last()
			sh.once.push(last, last.inMem.bytes)
		}
	}
	if e.onDisk.list != nil {
		sh.files.push(e, e.onDisk.bytes)
	}
}

// put stores a response, and replaces the one with the same choices. An entry with writing stays in
// memory until written is called. If still returns false, the resource has changed meanwhile, and
// put returns false without effect, as for a response that is older than the one that it would
// replace.
func (x *index) put(id keyID, s *stored, f *file, writing bool, still func() bool) (e *entry, ok bool) {
	defer x.evict()
	sh := x.shard(id)
	received := s.life.received
	e = &entry{id: id, variant: hashChoices(x.seed, s.choices), arrived: received, used: received, file: f}
	sh.mu.Lock()
	defer x.unlock(sh)
	if !still() {
		return nil, false
	}
	var dropped []*entry
	for _, old := range sh.keys[id] {
		replaces := !old.arrived.IsZero() && old.variant == e.variant
		if replaces && old.isNewer(s) {
			return nil, false
		}
		if replaces || old.stored != nil && old.stored.key != s.key {
			dropped = append(dropped, old)
		}
	}
	if all := sh.keys[id]; len(all)-len(dropped) >= maxVariants {
		dropped = append(dropped, leastUsed(all, dropped))
	}
	for _, old := range dropped {
		x.dropLocked(sh, old)
	}
	sh.keys[id] = slices.Insert(sh.keys[id], 0, e)
	x.entries.Add(1)
	x.load(sh, e, s)
	if writing {
		sh.writing.push(e, e.inMem.bytes)
	}
	x.addFile(sh, e)
	return e, true
}

// isNewer reports whether the response was received after another one. A time in the future does not
// count: the clock was set back since the response was written to disk.
func (e *entry) isNewer(other *stored) bool {
	return e.arrived.After(other.life.received) && !e.arrived.After(time.Now())
}

// leastUsed returns the least recently used entry of all that is not in but.
func leastUsed(all, but []*entry) (least *entry) {
	for _, e := range all {
		if !slices.Contains(but, e) && (least == nil || e.used.Before(least.used)) {
			least = e
		}
	}
	return least
}

// load puts a response into memory for an entry. The shard is locked.
func (x *index) load(sh *shard, e *entry, s *stored) {
	x.memory.Add(-e.inMem.remove())
	x.leases.enter(s)
	x.leases.leave(e.stored)
	if e.arrived.IsZero() {
		e.variant = hashChoices(x.seed, s.choices)
	}
	e.stored, e.arrived = s, s.life.received
	bytes := s.weight()
	x.memory.Add(bytes)
	sh.once.push(e, bytes)
}

func (x *index) addFile(sh *shard, e *entry) {
	if e.file != nil {
		x.disk.Add(e.file.charge)
		x.memory.Add(indexBytes)
		sh.files.push(e, e.file.charge)
	}
}

// replace replaces an entry's response by a new version, if the entry still has the old one.
func (x *index) replace(e *entry, old, fresh *stored, still func() bool) bool {
	defer x.evict()
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e.stored != old || !still() {
		return false
	}
	list := e.inMem.list
	x.load(sh, e, fresh)
	if list != nil {
		list.push(e, e.inMem.bytes)
	}
	e.variant = hashChoices(x.seed, fresh.choices)
	return true
}

// attach stores in an entry what was read of its file, unless the entry is loaded or gone. wanted
// reports whether the request matched.
func (x *index) attach(e *entry, s *stored, wanted bool, now time.Time) {
	defer x.evict()
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e.file != nil && wanted {
		e.used = now
		sh.files.push(e, e.onDisk.bytes)
	}
	if e.file != nil && e.stored == nil {
		x.load(sh, e, s)
	}
}

// addFound adds a file of an earlier run, if still returns true.
func (x *index) addFound(id keyID, f *file, now time.Time, still func() bool) {
	defer x.evict()
	sh := x.shard(id)
	sh.mu.Lock()
	defer x.unlock(sh)
	if !still() || len(sh.keys[id]) >= maxVariants {
		sh.dropped = append(sh.dropped, f)
		return
	}
	e := &entry{id: id, file: f, used: now}
	sh.keys[id] = append(sh.keys[id], e)
	x.entries.Add(1)
	x.addFile(sh, e)
}

func (x *index) drop(e *entry) {
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer x.unlock(sh)
	x.dropLocked(sh, e)
}

// dropKey removes all responses of a key, and returns their number.
func (x *index) dropKey(id keyID) int {
	sh := x.shard(id)
	sh.mu.Lock()
	defer x.unlock(sh)
	all := slices.Clone(sh.keys[id])
	for _, e := range all {
		x.dropLocked(sh, e)
	}
	return len(all)
}

// dropLocked removes an entry from a shard, unless it is gone. The caller unlocks by unlock.
func (x *index) dropLocked(sh *shard, e *entry) {
	all := sh.keys[e.id]
	i := slices.Index(all, e)
	if i < 0 {
		return
	}
	if sh.keys[e.id] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(sh.keys, e.id)
	}
	x.entries.Add(-1)
	x.memory.Add(-e.inMem.remove())
	if e.file != nil {
		x.disk.Add(-e.onDisk.remove())
		x.memory.Add(-indexBytes)
		sh.dropped = append(sh.dropped, e.file)
	}
	x.leases.leave(e.stored)
	e.stored, e.file = nil, nil
}

// sweep drops entries that were not used since then.
func (x *index) sweep(since time.Time) {
	unused := func(sh *shard) *entry { return sh.unusedSince(since) }
	for i := range x.shards {
		for x.evictFrom(&x.shards[i], unused, x.dropLocked) {
		}
	}
}

// unusedSince returns an entry that was not used since then, or nil.
func (sh *shard) unusedSince(since time.Time) *entry {
	for _, l := range [...]*list{&sh.once, &sh.again, &sh.files} {
		if e := l.last(); e != nil && e.used.Before(since) {
			return e
		}
	}
	return nil
}

// evict removes entries until the rest fits, including bodies that have left the index and are
// still being sent.
func (x *index) evict() {
	for x.memory.Load()+x.leases.loose.Load() > x.maxMemory.Load() {
		if !x.evictOne((*shard).leastInMemory, x.unloadLocked) && !x.evictOne((*shard).leastOnDisk, x.dropLocked) {
			break
		}
	}
	for x.disk.Load() > x.maxDisk.Load() && x.evictOne((*shard).leastOnDisk, x.dropLocked) {
	}
}

// evictFiles drops the n least recently used entries on disk.
func (x *index) evictFiles(n int) {
	for n > 0 && x.evictOne((*shard).leastOnDisk, x.dropLocked) {
		n--
	}
}

// evictOne evicts the least recently used entry that last returns for a shard. It returns false if
// there is none.
func (x *index) evictOne(last func(*shard) *entry, evict func(*shard, *entry)) bool {
	var oldest *shard
	var used time.Time
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		if e := last(sh); e != nil && (oldest == nil || e.used.Before(used)) {
			oldest, used = sh, e.used
		}
		sh.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	x.evictFrom(oldest, last, evict) // unless another goroutine was faster
	return true
}

// evictFrom evicts the entry that last returns for a shard, and reports whether there is one.
func (x *index) evictFrom(sh *shard, last func(*shard) *entry, evict func(*shard, *entry)) bool {
	sh.mu.Lock()
	defer x.unlock(sh)
	e := last(sh)
	if e != nil {
		evict(sh, e)
	}
	return e != nil
}

// unloadLocked removes an entry from memory, and drops it if it is not on disk.
func (x *index) unloadLocked(sh *shard, e *entry) {
	if e.file == nil {
		x.dropLocked(sh, e)
		return
	}
	x.memory.Add(-e.inMem.remove())
	x.leases.leave(e.stored)
	e.stored = nil
}

func (sh *shard) leastOnDisk() *entry { return sh.files.last() }

func (sh *shard) leastInMemory() *entry {
	if e := sh.once.last(); e != nil {
		return e
	}
	return sh.again.last()
}
