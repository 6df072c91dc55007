package front

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/files"
)

const (
	// maxPasswordFile and maxPasswordFiles bound the size of a password file and the number of
	// files in memory.
	maxPasswordFile  = 4 << 20
	maxPasswordFiles = 64
	// maxCredentialLen bounds names and passwords, because hashing takes time in proportion.
	maxCredentialLen = 512
	// maxVerified bounds the correct passwords that are remembered, so that a slow hash is not
	// computed for each request.
	maxVerified = 4096
	// hashTimeout bounds how long a request waits until it may compute a slow hash.
	hashTimeout = 10 * time.Second
)

// password is a Password, compiled.
type password struct {
	realm, file text
	files       *passwordFiles
}

// password compiles a Password. Its file need not exist yet: until it does requests get 403.
func (c *compiler) password(p *conf.Password) (*password, error) {
	if p == nil || p.Realm == "off" {
		return nil, nil
	}
	out := &password{files: &c.state.passwords}
	var err error
	if out.realm, err = c.text(p.Realm); err != nil {
		return nil, fmt.Errorf("auth_basic: %w", err)
	}
	if out.file, err = c.text(p.File); err != nil {
		return nil, fmt.Errorf("auth_basic_user_file: %w", err)
	}
	if p.File == "" {
		return nil, errors.New("auth_basic: missing password file: set auth_basic_user_file")
	}
	if out.file.constant() {
		log := errorLog{minLevel: levelWarn, logger: c.options.logger()}
		_, err := out.files.open(string(p.File),
			func(err error) { log.logf(levelWarn, "auth_basic_user_file: %v", err) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("auth_basic_user_file: %w", err)
		}
	}
	return out, nil
}

// check verifies the request's password. It returns granted, a status, or 0 if the location
// requires none.
func (p *password) check(x *exchange) int {
	realm := p.realm.eval(x)
	if realm == "off" {
		return 0
	}
	name, userPassword, ok := basicAuth(x.r)
	if !ok || name == "" || len(name) > maxCredentialLen || len(userPassword) > maxCredentialLen {
		return p.challenge(x, realm)
	}
	path := p.file.eval(x)
	f, err := p.files.open(path, func(err error) { x.errorf(levelWarn, "auth_basic_user_file: %v", err) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.errorf(levelError, "auth_basic_user_file: %v", err)
		return http.StatusForbidden
	case err != nil:
		x.errorf(levelCrit, "auth_basic_user_file: %v", err)
		return http.StatusInternalServerError
	}
	isRight, err := p.files.verify(x.r.Context(), f, name, userPassword)
	switch {
	case err != nil && x.r.Context().Err() != nil:
		return statusClientGone
	case err != nil:
		x.errorf(levelError, "user %q: %v", truncateLogged(name), err)
		return http.StatusServiceUnavailable
	case !isRight:
		x.errorf(levelError, "user %q: unknown user or wrong password", truncateLogged(name))
		return p.challenge(x, realm)
	}
	return granted
}

// basicAuth is http.Request.BasicAuth, but as in nginx it allows several spaces after the scheme
// and ignores padding.
func basicAuth(r *http.Request) (name, password string, ok bool) {
	const scheme = "Basic "
	value := r.Header.Get("Authorization")
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", "", false
	}
	encoded := strings.TrimRight(strings.TrimLeft(value[len(scheme):], " "), "=")
	both, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	if name, password, ok = strings.Cut(string(both), ":"); !ok {
		return "", "", false
	}
	return name, password, true
}

// challenge requests a password (RFC 7617, 2).
func (p *password) challenge(x *exchange, realm string) int {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, realm)
	x.w.Header()["Www-Authenticate"] = []string{`Basic realm="` +
		strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean) + `"`}
	return http.StatusUnauthorized
}

// passwordFiles caches password files and the correct passwords. The zero value is ready to use.
type passwordFiles struct {
	mu        sync.Mutex
	files     map[string]*passwordFile
	verified  map[[sha256.Size]byte]struct{}
	secret    []byte
	hashSlots chan struct{} // of slow hashes
}

// passwordFile is the content of a file. It never changes.
type passwordFile struct {
	hashes      map[string]string // by name; "" if the hash is not supported
	decoy       string            // compared with for unknown names, so that they take as long
	unsupported error             // describes the hashes that are not supported
	version     files.Version
	isSettled   bool // any later change of the file changes version
	sum         [sha256.Size]byte
}

// open returns the current file. If it was read anew, warn receives an error about its unsupported
// hashes. As in nginx users with such a hash cannot log in.
func (p *passwordFiles) open(path string, warn func(error)) (*passwordFile, error) {
	f, isNew, err := p.load(path)
	if isNew && f.unsupported != nil {
		warn(f.unsupported)
	}
	return f, err
}

// load returns a file, and whether its content has changed since the last call.
func (p *passwordFiles) load(path string) (f *passwordFile, isNew bool, err error) {
	info, err := os.Stat(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		delete(p.files, path)
		return nil, false, err
	}
	if f = p.files[path]; f != nil && f.isSettled && f.version == files.VersionOf(info) {
		return f, false, nil
	}
	old := f
	if f, err = readPasswords(path, info); err != nil {
		return nil, false, err
	}
	if p.files == nil {
		p.files = make(map[string]*passwordFile)
	}
	for other := range p.files {
		if len(p.files) < maxPasswordFiles {
			break
		}
		delete(p.files, other)
	}
	p.files[path] = f
	return f, old == nil || old.sum != f.sum, nil
}

func readPasswords(path string, info fs.FileInfo) (*passwordFile, error) {
	if !info.Mode().IsRegular() || info.Size() > maxPasswordFile {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", path, maxPasswordFile)
	}
	version := files.VersionOf(info)
	settled := version.Settled(time.Now())
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := parsePasswords(string(b))
	f.sum = sha256.Sum256(b)
	if f.version, f.isSettled = version, settled; f.unsupported != nil {
		f.unsupported = fmt.Errorf("%s: %w", path, f.unsupported)
	}
	return f, nil
}

// parsePasswords parses lines as htpasswd writes them: name:hash, and an optional comment after
// another colon. The first line of a name counts.
func parsePasswords(text string) *passwordFile {
	f := &passwordFile{hashes: make(map[string]string)}
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
		if err := checkHash(hash); err != nil {
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

// verify reports whether a password is correct. Unknown names take as long as known ones.
func (p *passwordFiles) verify(ctx context.Context, f *passwordFile, name, password string) (bool, error) {
	hash := f.hashes[name]
	exists := hash != ""
	if !exists {
		hash = f.decoy
	}
	if !isSlowHash(hash) {
		return hashMatches(hash, password) && exists, nil
	}
	key, verified, slots := p.wasVerified(name, hash, password)
	if verified {
		return exists, nil
	}
	timeout := time.NewTimer(hashTimeout)
	defer timeout.Stop()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timeout.C:
		return false, errors.New("too many password checks in progress")
	}
	isRight := hashMatches(hash, password) && exists
	<-slots
	if isRight {
		p.remember(key)
	}
	return isRight, nil
}

// wasVerified reports whether a password was correct before. What is remembered is a MAC with a
// random key, so that it does not reveal the password.
func (p *passwordFiles) wasVerified(name, hash, password string) (key [sha256.Size]byte, verified bool,
	slots chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secret == nil {
		p.secret = []byte(rand.Text())
		p.hashSlots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	}
	mac := hmac.New(sha256.New, p.secret)
	for _, s := range []string{name, hash, password} { // neither name nor hash has a colon
		mac.Write([]byte(s))
		mac.Write([]byte{':'})
	}
	mac.Sum(key[:0])
	_, verified = p.verified[key]
	return key, verified, p.hashSlots
}

func (p *passwordFiles) remember(key [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verified == nil {
		p.verified = make(map[[sha256.Size]byte]struct{})
	}
	for other := range p.verified {
		if len(p.verified) < maxVerified {
			break
		}
		delete(p.verified, other)
	}
	p.verified[key] = struct{}{}
}
