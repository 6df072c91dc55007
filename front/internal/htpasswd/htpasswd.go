// Package htpasswd verifies passwords by files of htpasswd, which may change at any time.
package htpasswd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/internal/files"
)

const (
	// maxFileBytes and maxFiles bound the size of a file and the number of files in memory.
	maxFileBytes = 4 << 20
	maxFiles     = 64
	// maxVerified bounds the correct passwords that are remembered, so that a slow hash is not
	// computed for each request.
	maxVerified = 4096
	// hashTimeout bounds how long a request waits until it may compute a slow hash.
	hashTimeout = 10 * time.Second
)

// Files caches password files and the correct passwords.
type Files struct {
	secret    []byte
	hashSlots chan struct{} // of slow hashes

	mu       sync.Mutex // guards files
	files    *simplelru.LRU[string, *File]
	verified *lru.Cache[[sha256.Size]byte, struct{}]
}

// New returns an empty cache.
func New() *Files {
	p := &Files{secret: []byte(rand.Text()), hashSlots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	p.files, _ = simplelru.NewLRU[string, *File](maxFiles, nil)
	p.verified, _ = lru.New[[sha256.Size]byte, struct{}](maxVerified)
	return p
}

// File is the content of a file. It never changes.
type File struct {
	hashes      map[string]string // by name; "" if the hash is not supported
	decoy       string            // compared with for unknown names, so that they take as long
	unsupported error             // describes the hashes that are not supported
	version     files.Version
	isSettled   bool // any later change of the file changes version
	sum         [sha256.Size]byte
}

// Has reports whether the file has a line for a name.
func (f *File) Has(name string) bool {
	_, has := f.hashes[name]
	return has
}

// Open returns the current file. If it was read anew, warn receives an error about its unsupported
// hashes. As in nginx users with such a hash cannot log in.
func (p *Files) Open(path string, warn func(error)) (*File, error) {
	f, isNew, err := p.load(path)
	if isNew && f.unsupported != nil {
		warn(f.unsupported)
	}
	return f, err
}

// load returns a file, and whether its content has changed since the last call.
func (p *Files) load(path string) (f *File, isNew bool, err error) {
	info, err := os.Stat(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.files.Remove(path)
		return nil, false, err
	}
	old, known := p.files.Get(path)
	if known && old.isSettled && old.version == files.VersionOf(info) {
		return old, false, nil
	}
	if f, err = readFile(path, info); err != nil {
		return nil, false, err
	}
	p.files.Add(path, f)
	return f, !known || old.sum != f.sum, nil
}

// Verify reports whether a password is correct. Unknown names take as long as known ones.
func (p *Files) Verify(ctx context.Context, f *File, name, password string) (bool, error) {
	hash := f.hashes[name]
	exists := hash != ""
	if !exists {
		hash = f.decoy
	}
	if !isSlowHash(hash) {
		return hashMatches(hash, password) && exists, nil
	}
	key := p.mac(name, hash, password)
	if _, verified := p.verified.Get(key); verified {
		return exists, nil
	}
	timeout := time.NewTimer(hashTimeout)
	defer timeout.Stop()
	select {
	case p.hashSlots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timeout.C:
		return false, errors.New("too many password checks in progress")
	}
	isRight := hashMatches(hash, password) && exists
	<-p.hashSlots
	if isRight {
		p.verified.Add(key, struct{}{})
	}
	return isRight, nil
}

// mac returns what is remembered of a correct password. Its key is random, so that it does not
// reveal the password.
func (p *Files) mac(name, hash, password string) (key [sha256.Size]byte) {
	mac := hmac.New(sha256.New, p.secret)
	for _, s := range []string{name, hash, password} { // neither name nor hash has a colon
		mac.Write([]byte(s))
		mac.Write([]byte{':'})
	}
	mac.Sum(key[:0])
	return key
}

func readFile(path string, info fs.FileInfo) (*File, error) {
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", path, maxFileBytes)
	}
	version := files.VersionOf(info)
	settled := version.Settled(time.Now())
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := parse(string(b))
	f.sum = sha256.Sum256(b)
	if f.version, f.isSettled = version, settled; f.unsupported != nil {
		f.unsupported = fmt.Errorf("%s: %w", path, f.unsupported)
	}
	return f, nil
}

// parse parses lines as htpasswd writes them: name:hash, and an optional comment after another
// colon. The first line of a name counts.
func parse(text string) *File {
	f := &File{hashes: make(map[string]string)}
	number, unsupported := 0, 0
	for line := range strings.Lines(text) {
		number++
		name, rest, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok || name == "" || name[0] == '#' {
			continue
		}
		hash, _, _ := strings.Cut(rest, ":")
		if _, duplicate := f.hashes[name]; duplicate {
			continue
		}
		if _, err := parseHash(hash); err != nil {
			if hash, unsupported = "", unsupported+1; f.unsupported == nil {
				f.unsupported = fmt.Errorf("line %d: user %q cannot log in: %w", number, name, err)
			}
		}
		f.hashes[name] = hash
		if f.decoy == "" {
			f.decoy = hash
		}
	}
	if unsupported > 1 {
		f.unsupported = fmt.Errorf("%w; and %d more", f.unsupported, unsupported-1)
	}
	return f
}
