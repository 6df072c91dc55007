package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"time"
)

type loader struct {
	h     *Handler
	key   string
	old   *resource // in the cache, or nil
	since uint64    // the watcher's count of events before loading
	sure  bool      // the watcher would report any change
	began int64     // nanoseconds since the Handler was made
}

// setUntil sets how long a resource may be served without a check. No event is handled meanwhile.
func (l *loader) setUntil(res *resource) {
	res.checks.last.Store(l.began)
	ticks := int64(unwatchedTicks)
	if l.sure && l.h.watch.events() == l.since {
		ticks = watchedTicks
	}
	if res.unripe {
		ticks = 1
	}
	res.until.Store(l.h.tick.Load() + ticks)
}

// file makes a resource of an open file, or confirms the old one.
func (l *loader) file(o openedFile) loadResult {
	siblings, err := l.openSiblings(o.name)
	if err != nil {
		_ = o.Close()
		return loadResult{status: statusOf(err)}
	}
	if l.unchanged(o, siblings) && l.h.cache.renew(l.old, func() { l.setUntil(l.old) }) {
		l.h.giveBackOrClose(l.old.identity, o.File)
		for i, s := range siblings {
			if s.File != nil {
				l.h.giveBackOrClose(l.old.encoded[i].Load(), s.File)
			}
		}
		return loadResult{res: l.old}
	}
	res := &resource{key: l.key}
	if res.identity, err = l.variant(res, o, ""); err != nil {
		closeAll(siblings)
		return loadResult{status: statusOf(err)}
	}
	coded := &l.h.plan.config.Compress
	res.makes = (coded.Gzip || coded.Zstd) && compressible(res.identity.contentType, res.identity.size)
	for i, s := range siblings {
		l.addChecks(res, i, s)
		if s.File == nil {
			continue
		}
		v, err := l.variant(res, s, res.identity.contentType)
		if err != nil {
			continue // it was deleted or cannot be read: the file itself is enough
		}
		v.describe(l.h.plan, l.h.plan.codings[i].token, true)
		res.encoded[i].Store(v)
		res.varies = true
	}
	res.varies = res.varies || res.makes
	res.identity.describe(l.h.plan, "", res.varies)
	l.h.cache.put(res, func() { l.setUntil(res) })
	return loadResult{res: res}
}

// addChecks records the paths that a resource found by path depends on: the file itself, and an
// encoded variant or its absence.
func (l *loader) addChecks(res *resource, i int, sibling openedFile) {
	t := l.h.tree.paths
	if t == nil {
		return
	}
	if len(res.checks.all) == 0 {
		res.checks.add(t, res.identity.name, res.identity.stamp)
	}
	if c := l.h.plan.codings[i]; c.sibling {
		res.checks.add(t, res.identity.name+c.suffix, sibling.stamp)
	}
}

// openSiblings opens the encoded variants next to a file.
func (l *loader) openSiblings(name string) (all [numCodings]openedFile, err error) {
	for i, c := range l.h.plan.codings {
		if !c.sibling {
			continue
		}
		o, err := l.open(name + c.suffix)
		switch {
		case err == nil && o.info.IsDir():
			_ = o.Close()
		case err == nil:
			all[i] = o
		case statusOf(err) == http.StatusServiceUnavailable:
			closeAll(all)
			return all, err
		}
	}
	return all, nil
}

func closeAll(all [numCodings]openedFile) {
	for _, o := range all {
		if o.File != nil {
			_ = o.Close()
		}
	}
}

// unchanged reports whether the files are those of the old resource. Variants that the handler
// compressed are valid if the file is unchanged.
func (l *loader) unchanged(o openedFile, siblings [numCodings]openedFile) bool {
	if l.old == nil || l.old.absent || l.old.unripe || l.old.identity.stamp != o.stamp ||
		l.old.identity.name != o.name {
		return false
	}
	for i := range siblings {
		v := l.old.encoded[i].Load()
		before := v != nil && v.name != ""
		if has := siblings[i].File != nil; has != before || has && siblings[i].stamp != v.stamp {
			return false
		}
	}
	return true
}

// variant makes a variant of a file. It either keeps the file or closes it. contentType is that of
// the original, for a sibling.
func (l *loader) variant(res *resource, o openedFile, contentType string) (*variant, error) {
	v := &variant{name: o.name, stamp: o.stamp, contentType: contentType}
	// a change by another name is reported in another directory
	l.sure = l.sure && v.stamp.links <= 1
	if err := v.read(o.File, l.h.plan.config.Limits.SmallFile, res); err != nil {
		_ = o.Close()
		return nil, err
	}
	if v.contentType == "" {
		v.contentType = l.h.typeOf(o.name, v.beginning(o.File))
	}
	v.size = v.stamp.size
	if modified := time.Unix(0, v.stamp.modified).Truncate(time.Second); modified.Unix() > 0 &&
		!modified.After(time.Now()) {
		v.modified = modified // a time later than Date must not be sent: RFC 9110, 8.8.2.1
	}
	inMemory := v.content != nil || v.size == 0
	switch {
	case l.h.plan.config.NoEtag:
	case inMemory:
		v.etag = contentETag(v.content)
	default:
		v.etag = stampETag(v.stamp)
	}
	if inMemory {
		_ = o.Close()
	} else {
		l.h.giveBack(v, o.File)
	}
	return v, nil
}

// source is the part of an open file that reading requires.
type source interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// read reads a small file. For a large one it waits until its stamp is ripe.
func (v *variant) read(f source, small int64, res *resource) error {
	for range maxReloads {
		if v.stamp.size > small {
			break
		}
		now := time.Now()
		content, again, err := readTwice(f, v.stamp, v.stamp.Settled(now))
		if err != nil && !errors.Is(err, errChanged) {
			return err
		}
		if err == nil && again == v.stamp {
			v.content = content
			res.unripe = res.unripe || !v.stamp.Settled(now)
			return nil
		}
		if again, err = stampOf(f); err != nil {
			return err
		}
		v.stamp = again
	}
	// A small file that changes this fast is sent like a large one, which detects further changes.
	if now := time.Now(); !v.stamp.Settled(now) {
		time.Sleep(settle)
	}
	s, err := stampOf(f)
	v.stamp = s
	return err
}

// readTwice reads a file and returns its stamp afterwards. If the stamp was not ripe, it reads
// twice: equal contents were valid at the moment between.
func readTwice(f source, s stamp, ripe bool) ([]byte, stamp, error) {
	b, err := readAll(f, s.size)
	if err == nil && !ripe {
		var again []byte
		if again, err = readAll(f, s.size); err == nil && !bytes.Equal(b, again) {
			err = errChanged
		}
	}
	if err != nil {
		return nil, stamp{}, err
	}
	now, err := stampOf(f)
	return b, now, err
}

func readAll(f source, size int64) ([]byte, error) {
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); errors.Is(err, io.EOF) {
		return nil, errChanged // it has become shorter
	} else if err != nil {
		return nil, err
	}
	return b, nil
}

// beginning returns the bytes for guessing the type of a file.
func (v *variant) beginning(f *os.File) []byte {
	if v.content != nil {
		return v.content[:min(len(v.content), sniffed)]
	}
	b := make([]byte, sniffed)
	n, _ := f.ReadAt(b, 0) // sending detects the error
	return b[:n]
}

// typeOf returns a file's media type: TypeOf's, or that of its extension in the system's table, or
// a guess by its first bytes.
func (h *Handler) typeOf(name string, beginning []byte) string {
	if h.plan.config.TypeOf != nil {
		if t := h.plan.config.TypeOf(name); t != "" {
			return t
		}
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return http.DetectContentType(beginning)
}

// contentETag returns a strong entity tag for bytes. It is the same on all servers and after
// copying. It differs for different bytes of the same length and date, which reproducible builds
// produce.
func contentETag(b []byte) string {
	sum := sha256.Sum256(b)
	return tag(sum)
}

// stampETag returns a strong entity tag for a file that is not read. A file that replaces another
// one has a different inode.
func stampETag(s stamp) string {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(s.modified))
	binary.LittleEndian.PutUint64(b[8:], uint64(s.size))
	binary.LittleEndian.PutUint64(b[16:], s.inode)
	binary.LittleEndian.PutUint64(b[24:], s.device)
	return tag(sha256.Sum256(b[:]))
}

func tag(sum [sha256.Size]byte) string {
	const enough = 12 // bytes
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:enough]) + `"`
}

// giveBackOrClose keeps a descriptor of a file that is sent from it.
func (h *Handler) giveBackOrClose(v *variant, f *os.File) {
	if v == nil || v.content != nil || v.size == 0 {
		_ = f.Close()
		return
	}
	h.giveBack(v, f)
}
