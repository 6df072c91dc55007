package cache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// disk is a directory of responses, one file each. A file name ends in the key's 32 hexadecimal
// digits; as in nginx, levels are made from the last ones. The name begins with a unique part, so
// that no name ever stands for two responses.
type disk struct {
	path     string
	levels   []int
	free     atomic.Int64  // conf.Cache.MinFree
	run      string        // begins the names of this run's files
	written  atomic.Uint32 // number of files so far
	makeRoom func()
	errors   diskErrors
}

const (
	drafts     = "drafts" // the directory of unfinished files
	runSize    = 8        // characters of a name that identify the run
	madeSize   = 8        // characters of a name that count files
	dirMode    = 0o700
	draftMode  = 0o600
	draftFlags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	nameLength = runSize + madeSize + 2*len(keyID{})
)

var errFull = errors.New("cache: disk full")

// file is a response's place on disk.
type file struct {
	name    string // below the directory
	charge  int64
	checked atomic.Bool // the body was compared with its checksum, or written by this process
	mu      sync.Mutex  // held while the description is read or written

	checking sync.Mutex // held while the body is compared with its checksum
}

// MakeDir creates the directory of a cache for its owner only, unless it exists. As in nginx the
// parent must exist: if root created it for an unprivileged user, it would need a mode and an owner
// that no configuration defines.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, dirMode)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w (create %s first, and let the server's user enter it)", err, filepath.Dir(dir))
	}
	return err
}

func openDisk(dir string, levels []int, minFree int64, print func(text string)) (*disk, error) {
	d := &disk{path: dir, levels: levels, run: fmt.Sprintf("%0*x", runSize, rand.Uint32()),
		errors: diskErrors{print: print}}
	d.free.Store(minFree)
	return d, d.makeDirs()
}

func (d *disk) makeDirs() error {
	if err := MakeDir(d.path); err != nil {
		return err
	}
	return MakeDir(d.at(drafts))
}

// at returns the path of a file's name.
func (d *disk) at(name string) string { return filepath.Join(d.path, name) }

// draft is a file that is being written.
type draft struct {
	file *os.File
	disk *disk
	name string
}

// create creates a draft for a number of bytes. It fails if the disk would be too full.
func (d *disk) create(bytes int64) (*draft, error) {
	if least := d.free.Load(); least > 0 {
		if free, ok := freeBytes(d.path); ok && free-bytes < least {
			d.makeRoom()
			return nil, errFull
		}
	}
	name := path.Join(drafts, d.newName(keyID{}))
	f, err := os.OpenFile(d.at(name), draftFlags, draftMode)
	if errors.Is(err, os.ErrNotExist) { // another program has emptied or removed the directory
		if err = d.makeDirs(); err == nil {
			f, err = os.OpenFile(d.at(name), draftFlags, draftMode)
		}
	}
	if err != nil {
		return nil, d.errors.failed(err)
	}
	return &draft{f, d, name}, nil
}

// write writes bytes at an offset in the file.
func (w *draft) write(b []byte, at int64) error {
	if _, err := w.file.WriteAt(b, at); err != nil {
		return w.disk.errors.failed(err)
	}
	return nil
}

// remove removes the draft's file, unless it was renamed. The draft stays open.
func (w *draft) remove() {
	if w.name != "" {
		_ = os.Remove(w.disk.at(w.name))
		w.name = ""
	}
}

func (w *draft) discard() {
	w.file.Close()
	w.remove()
}

// keep writes the response's description before its body and gives the file its final name.
func (w *draft) keep(s *stored, bodyAt int64, sum uint32) (*file, error) {
	head, p := encodeHead(prelude{room: uint32(bodyAt - preludeSize), bodySum: sum, body: s.length}, s)
	if p.length > p.room {
		return nil, errFull
	}
	if err := w.write(head, 0); err != nil {
		return nil, err
	}
	base := w.disk.newName(identify(s.key))
	name := path.Join(w.disk.dirOf(base), base)
	from, to := w.disk.at(w.name), w.disk.at(name)
	err := os.Rename(from, to)
	if errors.Is(err, os.ErrNotExist) { // the first file in its directory
		if err = os.MkdirAll(filepath.Dir(to), dirMode); err == nil {
			err = os.Rename(from, to)
		}
	}
	if err != nil {
		return nil, w.disk.errors.failed(err)
	}
	if w.disk.errors.failing.CompareAndSwap(true, false) {
		w.disk.errors.print("writing responses to the disk again")
	}
	w.name = ""
	f := &file{name: name, charge: max(bodyAt+s.length, minCharge)}
	f.checked.Store(true)
	return f, nil
}

// newName returns a name that no file has had.
func (d *disk) newName(id keyID) string {
	return fmt.Sprintf("%s%0*x%x", d.run, madeSize, d.written.Add(1), id)
}

// dirOf returns the directory of a name.
func (d *disk) dirOf(base string) string {
	var parts []string
	end := len(base)
	for _, n := range d.levels {
		parts = append(parts, base[end-n:end])
		end -= n
	}
	return path.Join(parts...)
}

// idOf returns the key's part of a name, if the name is one of the cache's.
func idOf(base string) (id keyID, ok bool) {
	if len(base) != nameLength || strings.ToLower(base) != base {
		return id, false
	}
	b, err := hex.DecodeString(base)
	if err != nil {
		return id, false
	}
	copy(id[:], b[(runSize+madeSize)/2:])
	return id, true
}

func (d *disk) remove(f *file) { _ = os.Remove(d.at(f.name)) }

// read reads a response, with its body if that has at most the given length. It compares a body
// from an earlier run with its checksum.
func (d *disk) read(f *file, most int64) (*stored, error) {
	r, err := os.Open(d.at(f.name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f.mu.Lock()
	s, p, err := readHead(r)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.length = p.body
	if p.body > most {
		if err := f.check(r, p); err != nil {
			return nil, err
		}
		return s, nil
	}
	s.hold(make([]byte, p.body))
	if _, err := io.ReadFull(io.NewSectionReader(r, p.bodyAt(), p.body), s.body); err != nil ||
		checksum(0, s.body) != p.bodySum {
		return nil, errTorn
	}
	f.checked.Store(true)
	return s, nil
}

// check compares a body with its checksum. Concurrent calls read it once.
func (f *file) check(r *os.File, p prelude) error {
	if f.checked.Load() {
		return nil
	}
	f.checking.Lock()
	defer f.checking.Unlock()
	if f.checked.Load() {
		return nil
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(sum, io.NewSectionReader(r, p.bodyAt(), p.body)); err != nil || sum.Sum32() != p.bodySum {
		return errTorn
	}
	f.checked.Store(true)
	return nil
}

// readHead reads what precedes the body.
func readHead(r *os.File) (*stored, prelude, error) {
	p, err := readPrelude(r)
	if err != nil {
		return nil, p, err
	}
	head := make([]byte, p.length)
	if _, err := io.ReadFull(io.NewSectionReader(r, preludeSize, int64(p.length)), head); err != nil ||
		checksum(0, head) != p.headSum {
		return nil, p, errTorn
	}
	s, err := parseStored(head)
	return s, p, err
}

// body opens a response's file at the beginning of the body. A file that was cut off meanwhile is
// an error: otherwise each request would receive a part of the body.
func (d *disk) body(f *file, length int64) (*os.File, error) {
	r, err := os.Open(d.at(f.name))
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	p, err := readPrelude(r)
	f.mu.Unlock()
	if err == nil && p.body != length {
		err = errTorn
	}
	if err == nil {
		_, err = r.Seek(p.bodyAt(), io.SeekStart)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// readPrelude reads the prelude, and checks the length of the file.
func readPrelude(r *os.File) (p prelude, err error) {
	var fixed [preludeSize]byte
	if _, err := r.ReadAt(fixed[:], 0); err != nil {
		return p, errTorn
	}
	if p, err = parsePrelude(fixed[:]); err != nil {
		return p, err
	}
	if info, err := r.Stat(); err != nil || info.Size()-p.bodyAt() != p.body {
		return p, errTorn
	}
	return p, nil
}

// describe replaces the description in a file, if there is room.
func (d *disk) describe(f *file, s *stored) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := os.OpenFile(d.at(f.name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	_, p, err := readHead(w)
	if err != nil {
		return err
	}
	head, fresh := encodeHead(p, s)
	if fresh.length > fresh.room {
		return errFull
	}
	_, err = w.WriteAt(head, 0)
	return err
}

// diskErrors logs when responses cannot be written to the disk any more, and when they can be
// again.
type diskErrors struct {
	print   func(text string)
	failing atomic.Bool // and the log says so

	mu   sync.Mutex
	last time.Time // of the last line about a failure
}

// failed returns err, after it has logged it.
func (e *diskErrors) failed(err error) error {
	if e.failing.Load() || errors.Is(err, errFull) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); e.last.IsZero() || now.Sub(e.last) >= reportEvery {
		e.last = now
		e.failing.Store(true)
		e.print(fmt.Sprintf("cannot write responses to the disk, they are kept in memory at most: %v", err))
	}
	return err
}
