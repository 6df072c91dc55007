package cache

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// index is where answers are found. Its shards have a lock each, which is held for a look, never while anything is read or written.
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
	keys    map[keyID]*variants
	flights map[flightKey]*flight

	// What is in memory is in one of these: what was asked for once, and what was again. So what nobody comes back for, such as a
	// crawler's pages, does not drive out what many ask for.
	once, again list
	writing     list // to disk: it cannot go yet
	files       list
}

// variants are the answers of a key, the newest first.
type variants struct {
	all []*entry
}

// vary reports whether a response may vary by fields of the request.
func (v *variants) vary() bool {
	return slices.ContainsFunc(v.all, func(e *entry) bool { return e.stored == nil || len(e.stored.choices) > 0 })
}

// entry is an answer's place in the cache. Its fields are guarded by its shard.
type entry struct {
	id      keyID
	variant uint64 // of choices, if it is known
	known   bool
	stored  *stored // nil if it is on disk only, and was not read lately
	file    *file   // nil if it is in memory only
	used    time.Time
	moved   time.Time // to the front
	inMem   links
	onDisk  links
}

func (x *index) init() {
	x.seed = maphash.MakeSeed()
	for i := range x.shards {
		s := &x.shards[i]
		s.keys, s.flights = make(map[keyID]*variants), make(map[flightKey]*flight)
		memory := func(e *entry) *links { return &e.inMem }
		s.once.init(memory)
		s.again.init(memory)
		s.writing.init(memory)
		s.files.init(func(e *entry) *links { return &e.onDisk })
	}
}

func (x *index) shard(id keyID) *shard { return &x.shards[id[0]%shards] }

// slot is where tables that forget have what they know of a key.
func (id keyID) slot() uint64 { return binary.LittleEndian.Uint64(id[8:]) }

// find returns the answer that a request is meant by, with its entry, or those that must be read to know.
func (x *index) find(id keyID, key string, request *fields, now time.Time) (e *entry, s *stored, unread []*entry) {
	sh := x.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	v := sh.keys[id]
	if v != nil && request.origin != nil && v.vary() { // no origin is called with the lock held
		sh.mu.Unlock()
		request.find()
		sh.mu.Lock()
		v = sh.keys[id]
	}
	if v == nil {
		return nil, nil, nil
	}
	for _, candidate := range v.all {
		c := candidate.stored
		if c == nil {
			unread = append(unread, candidate)
			continue
		}
		if c.key == key && chosen(c.choices, request) && (s == nil || c.life.received.After(s.life.received)) {
			e, s = candidate, c
		}
	}
	if e != nil {
		x.touch(sh, e, now)
	}
	return e, s, unread
}

// has reports whether anything is kept of a key.
func (x *index) has(id keyID) bool {
	sh := x.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.keys[id] != nil
}

// fileOf is an entry's file, or nil.
func (x *index) fileOf(e *entry) *file {
	sh := x.shard(e.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return e.file
}

// written says where an entry's answer is on disk, too; nil if it could not be written. It reports false if that is of no use any more.
func (x *index) written(e *entry, s *stored, f *file) bool {
	sh := x.shard(e.id)
	sh.mu.Lock()
	ok := e.stored == s
	if e.inMem.list == &sh.writing {
		sh.once.push(e, e.inMem.bytes)
	}
	if ok && f != nil {
		e.file = f
		x.addFile(sh, e)
	}
	sh.mu.Unlock()
	x.evict()
	return ok
}

// touch notes that an entry was asked for.
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

// put keeps an answer in the place of the one with the same choices. What is being written to disk stays in memory until written is called. It
// reports false if the cache may not keep it, which is the case if
// still says so: what it is of was changed meanwhile.
func (x *index) put(id keyID, s *stored, f *file, writing bool, still func() bool) (e *entry, ok bool) {
	sh := x.shard(id)
	e = &entry{id: id, variant: hashChoices(x.seed, s.choices), known: true, used: s.life.received, file: f}
	sh.mu.Lock()
	if !still() {
		sh.mu.Unlock()
		return nil, false
	}
	v := sh.keys[id]
	if v == nil {
		v = &variants{}
		sh.keys[id] = v
	}
	var dropped []*entry
	for _, old := range v.all {
		if old.known && old.variant == e.variant || old.stored != nil && old.stored.key != s.key {
			dropped = append(dropped, old)
		}
	}
	if len(v.all)-len(dropped) >= maxVariants {
		dropped = append(dropped, leastUsed(v.all, dropped))
	}
	files := x.dropLocked(sh, dropped)
	sh.keys[id] = v // dropLocked may have removed it
	v.all = slices.Insert(v.all, 0, e)
	x.entries.Add(1)
	x.load(sh, e, s)
	if writing {
		sh.writing.push(e, e.inMem.bytes)
	}
	x.addFile(sh, e)
	sh.mu.Unlock()
	x.discardAll(files)
	x.evict()
	return e, true
}

// leastUsed is the one of all, but for those, that has not been asked for the longest.
func leastUsed(all, but []*entry) (least *entry) {
	for _, e := range all {
		if !slices.Contains(but, e) && (least == nil || e.used.Before(least.used)) {
			least = e
		}
	}
	return least
}

// load has an entry be in memory, too. The shard is locked.
func (x *index) load(sh *shard, e *entry, s *stored) {
	x.memory.Add(-e.inMem.remove())
	x.leases.enter(s)
	x.leases.leave(e.stored)
	e.stored = s
	if !e.known {
		e.variant, e.known = hashChoices(x.seed, s.choices), true
	}
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

// replace has an entry stand for another version of its answer, if it still stands for the old one.
func (x *index) replace(e *entry, old, fresh *stored, still func() bool) bool {
	sh := x.shard(e.id)
	sh.mu.Lock()
	ok := e.stored == old && still()
	if ok {
		list := e.inMem.list
		x.load(sh, e, fresh)
		if list != nil {
			list.push(e, e.inMem.bytes)
		}
		e.variant = hashChoices(x.seed, fresh.choices)
	}
	sh.mu.Unlock()
	x.evict()
	return ok
}

// attach gives an entry what was read of it, unless it has been or is gone, and notes whether it was asked for.
func (x *index) attach(e *entry, s *stored, asked bool, now time.Time) {
	sh := x.shard(e.id)
	sh.mu.Lock()
	if e.file != nil && asked {
		e.used = now
		sh.files.push(e, e.onDisk.bytes)
	}
	if e.file != nil && e.stored == nil {
		x.load(sh, e, s)
	}
	sh.mu.Unlock()
	x.evict()
}

// addFound adds a file that was there when the cache was opened, if still says that the cache may keep it.
func (x *index) addFound(id keyID, f *file, now time.Time, still func() bool) {
	sh := x.shard(id)
	sh.mu.Lock()
	v := sh.keys[id]
	keeps := still() && (v == nil || len(v.all) < maxVariants)
	if keeps {
		if v == nil {
			v = &variants{}
			sh.keys[id] = v
		}
		e := &entry{id: id, file: f, used: now}
		v.all = append(v.all, e)
		x.entries.Add(1)
		x.addFile(sh, e)
	}
	sh.mu.Unlock()
	if !keeps {
		x.discard(f)
	}
	x.evict()
}

// drop forgets an entry.
func (x *index) drop(e *entry) {
	sh := x.shard(e.id)
	sh.mu.Lock()
	files := x.dropLocked(sh, []*entry{e})
	sh.mu.Unlock()
	x.discardAll(files)
}

// dropKey forgets all answers of a key, and returns how many there were.
func (x *index) dropKey(id keyID) int {
	sh := x.shard(id)
	sh.mu.Lock()
	var all []*entry
	if v := sh.keys[id]; v != nil {
		all = slices.Clone(v.all)
	}
	files := x.dropLocked(sh, all)
	sh.mu.Unlock()
	x.discardAll(files)
	return len(all)
}

// dropLocked takes entries out of a shard and returns their files, which are to be discarded once it is unlocked.
func (x *index) dropLocked(sh *shard, all []*entry) (files []*file) {
	for _, e := range all {
		v := sh.keys[e.id]
		if v == nil {
			continue
		}
		i := slices.Index(v.all, e)
		if i < 0 {
			continue
		}
		if v.all = slices.Delete(v.all, i, i+1); len(v.all) == 0 {
			delete(sh.keys, e.id)
		}
		x.entries.Add(-1)
		x.memory.Add(-e.inMem.remove())
		if e.file != nil {
			x.disk.Add(-e.onDisk.remove())
			x.memory.Add(-indexBytes)
			files = append(files, e.file)
		}
		x.leases.leave(e.stored)
		e.stored, e.file = nil, nil
	}
	return files
}

func (x *index) discardAll(files []*file) {
	for _, f := range files {
		x.discard(f)
	}
}

// each calls f for every entry, a shard at a time, and drops those for which it returns true. It returns how many these were.
func (x *index) each(f func(*entry) bool) (dropped int) {
	for i := range x.shards {
		sh := &x.shards[i]
		var gone []*entry
		sh.mu.Lock()
		for _, v := range sh.keys {
			for _, e := range v.all {
				if f(e) {
					gone = append(gone, e)
				}
			}
		}
		files := x.dropLocked(sh, gone)
		sh.mu.Unlock()
		x.discardAll(files)
		dropped += len(gone)
	}
	return dropped
}

// sweep drops what was not asked for since then, a few at a time.
func (x *index) sweep(since time.Time) {
	const few = 64
	for i := range x.shards {
		sh := &x.shards[i]
		for dropped := few; dropped == few; {
			var files []*file
			sh.mu.Lock()
			for dropped = 0; dropped < few; dropped++ {
				e := sh.unusedSince(since)
				if e == nil {
					break
				}
				files = append(files, x.dropOneLocked(sh, e)...)
			}
			sh.mu.Unlock()
			x.discardAll(files)
		}
	}
}

// unusedSince is an entry that was not asked for since then, or nil.
func (sh *shard) unusedSince(since time.Time) *entry {
	for _, l := range [...]*list{&sh.once, &sh.again, &sh.files} {
		if e := l.last(); e != nil && e.used.Before(since) {
			return e
		}
	}
	return nil
}

// evict makes what is kept fit, together with what has left the index and is still being sent.
func (x *index) evict() {
	for x.memory.Load()+x.leases.loose.Load() > x.maxMemory.Load() {
		if !x.evictOne((*shard).leastInMemory, x.unloadLocked) && !x.evictOne((*shard).leastOnDisk, x.dropOneLocked) {
			break
		}
	}
	for x.disk.Load() > x.maxDisk.Load() && x.evictOne((*shard).leastOnDisk, x.dropOneLocked) {
	}
}

// evictFiles drops so many of what is on disk.
func (x *index) evictFiles(n int) {
	for n > 0 && x.evictOne((*shard).leastOnDisk, x.dropOneLocked) {
		n--
	}
}

// evictOne evicts what was used the longest ago, as the shards tell by last. It reports false if there is nothing.
func (x *index) evictOne(last func(*shard) *entry, evict func(*shard, *entry) []*file) bool {
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
	oldest.mu.Lock()
	var files []*file
	if e := last(oldest); e != nil { // else somebody was faster
		files = evict(oldest, e)
	}
	oldest.mu.Unlock()
	x.discardAll(files)
	return true
}

// unloadLocked takes an entry out of memory, and forgets it if it is not on disk.
func (x *index) unloadLocked(sh *shard, e *entry) []*file {
	if e.file == nil {
		return x.dropOneLocked(sh, e)
	}
	x.memory.Add(-e.inMem.remove())
	x.leases.leave(e.stored)
	e.stored = nil
	return nil
}

func (x *index) dropOneLocked(sh *shard, e *entry) []*file { return x.dropLocked(sh, []*entry{e}) }

func (sh *shard) leastOnDisk() *entry { return sh.files.last() }

func (sh *shard) leastInMemory() *entry {
	if e := sh.once.last(); e != nil {
		return e
	}
	return sh.again.last()
}
