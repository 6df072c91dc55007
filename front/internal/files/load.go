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

// load makes the resource of a key. If there is none, it returns the status.
func (h *Handler) load(k, name string, dir bool) (*resource, int) {
	began, byPath, within := h.now(), h.plan.config.ByPath, name
	if dir {
		within = path.Join(name, "index")
	}
	changes := h.watch.cover([]check{{name: within}})
	o, err := h.open(name)
	mayBeEncoded := byPath && !dir && h.plan.config.Compress.hasSiblings()
	if err != nil && (statusOf(err) != http.StatusNotFound || byPath && !mayBeEncoded) {
		return nil, statusOf(err)
	}
	res := &resource{key: k}
	res.checked.Store(began)
	res.changes.Store(changes)
	switch {
	case err != nil && !byPath:
		h.addCheck(res, name)
		res.checks[0].stamp = stamp{}
		h.absent.put(res)
		return res, 0
	case err != nil: // a variant may exist
		res.checks = []check{{name: name}}
	case o.info.IsDir() && dir: // a change of names in it does not concern the index
		_ = o.Close()
		if name, o, err = h.openIndex(res, name); err != nil {
			return nil, statusOf(err)
		}
		if o.File == nil && h.plan.config.Listing {
			return nil, http.StatusOK
		}
		if o.File == nil {
			return nil, http.StatusForbidden
		}
	case o.info.IsDir() || dir:
		_ = o.Close()
		return nil, http.StatusMovedPermanently
	default:
		h.addCheck(res, name)
		res.checks[0].stamp = o.stamp
	}
	return h.loadVariants(res, name, o)
}

// openIndex opens the index of a directory. The result has no File if there is none.
func (h *Handler) openIndex(res *resource, dir string) (string, openedFile, error) {
	for _, index := range h.plan.config.Index {
		name := path.Join(dir, index)
		h.addCheck(res, name)
		o, err := h.open(name)
		switch {
		case err == nil && o.info.Mode().IsRegular():
			return name, o, nil
		case err == nil:
			_ = o.Close()
		case statusOf(err) != http.StatusNotFound:
			return "", openedFile{}, err
		}
	}
	return "", openedFile{}, nil
}

// addCheck adds a name that need not exist to those that a resource depends on. It does so before
// the name is opened: the first check notices a change in between.
func (h *Handler) addCheck(res *resource, name string) (exists bool) {
	s, isPlain := h.tree.stamp(name, res.changes.Load() != 0)
	if res.checks = append(res.checks, check{name, s}); !isPlain {
		res.changes.Store(0)
	}
	return s != stamp{}
}

// loadVariants reads an open file and its encoded variants, or only these if there is no file.
func (h *Handler) loadVariants(res *resource, name string, o openedFile) (*resource, int) {
	contentType := ""
	if o.File != nil {
		var err error
		if res.identity, err = h.loadVariant(res, name, o, ""); err != nil {
			return nil, statusOf(err)
		}
		contentType = res.identity.contentType
		coded := &h.plan.config.Compress
		res.makes = (coded.Gzip || coded.Zstd) && compressible(contentType, res.identity.size)
		res.varies = res.makes
	} else {
		contentType = h.typeOf(name, nil)
	}
	for i, c := range h.plan.codings {
		if !c.sibling || !h.addCheck(res, name+c.suffix) {
			continue
		}
		o, err := h.open(name + c.suffix)
		if err == nil && o.info.IsDir() {
			_ = o.Close()
			continue
		}
		var v *variant
		if err == nil {
			v, err = h.loadVariant(res, name+c.suffix, o, contentType)
		}
		if err != nil && statusOf(err) == http.StatusServiceUnavailable {
			return nil, http.StatusServiceUnavailable
		}
		if err != nil {
			continue // the file itself is enough
		}
		v.describe(h.plan, c.token, !c.always)
		res.encoded[i].Store(v)
		res.varies = true
	}
	switch {
	case res.identity != nil:
		res.identity.describe(h.plan, "", res.varies)
	case !res.varies:
		return nil, http.StatusNotFound
	}
	if res.unripe {
		res.changes.Store(0)
	}
	h.cache.put(res)
	return res, 0
}

// loadVariant makes a variant of a file, which it closes. contentType is that of the original, for
// an encoded variant.
func (h *Handler) loadVariant(res *resource, name string, o openedFile, contentType string) (*variant, error) {
	defer o.Close()
	v := &variant{name: name, stamp: o.stamp, contentType: contentType}
	if err := v.read(o.File, h.plan.config.Limits.SmallFile, res); err != nil {
		return nil, err
	}
	if v.contentType == "" {
		v.contentType = h.typeOf(name, v.beginning(o.File))
	}
	v.size = v.stamp.size
	if modified := time.Unix(0, v.stamp.modified).Truncate(time.Second); modified.Unix() > 0 &&
		!modified.After(time.Now()) {
		v.modified = modified // a time later than Date must not be sent: RFC 9110, 8.8.2.1
	}
	switch {
	case h.plan.config.NoEtag:
	case v.content != nil || v.size == 0:
		v.etag = contentETag(v.content)
	default:
		v.etag = stampETag(v.stamp)
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
