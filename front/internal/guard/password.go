package guard

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/htpasswd"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

// maxCredentialLen bounds names and passwords, because hashing takes time in proportion.
const maxCredentialLen = 512

type password struct {
	realm, file core.Text
	files       *htpasswd.Files
}

// compilePassword compiles a Password. Its file need not exist yet: until it does requests get 403.
func compilePassword(c *core.Compiler, p *conf.Password, files *htpasswd.Files) *password {
	if p == nil || p.Realm == "off" {
		return nil
	}
	out := &password{files: files, realm: c.Text("auth_basic", p.Realm), file: c.Text("auth_basic_user_file", p.File)}
	if p.File == "" {
		c.Failf("auth_basic: missing password file: set auth_basic_user_file")
	}
	if out.file.Constant() {
		log := errorlog.Log{MinLevel: errorlog.LevelWarn, Logger: c.Options.Logger()}
		_, err := out.files.Open(string(p.File),
			func(err error) { log.Logf(errorlog.LevelWarn, "auth_basic_user_file: %v", err) })
		if !errors.Is(err, fs.ErrNotExist) {
			c.Check("auth_basic_user_file", err)
		}
	}
	return out
}

// check verifies the request's password. It returns granted, a status, or 0 if the location
// requires none.
func (p *password) check(x *core.Exchange) int {
	if p == nil {
		return 0
	}
	realm := p.realm.Eval(x)
	if realm == "off" {
		return 0
	}
	name, userPassword, ok := basicAuth(x.Request)
	if !ok {
		x.Errorf(errorlog.LevelInfo, "no user/password was provided for basic authentication")
	}
	if !ok || name == "" || len(name) > maxCredentialLen || len(userPassword) > maxCredentialLen {
		return p.challenge(x, realm)
	}
	path := p.file.Eval(x)
	f, err := p.files.Open(path, func(err error) { x.Errorf(errorlog.LevelWarn, "auth_basic_user_file: %v", err) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.Errorf(errorlog.LevelError, "auth_basic_user_file: %v", err)
		return http.StatusForbidden
	case err != nil:
		x.Errorf(errorlog.LevelCrit, "auth_basic_user_file: %v", err)
		return http.StatusInternalServerError
	}
	isRight, err := p.files.Verify(x.Request.Context(), f, name, userPassword)
	switch {
	case err != nil && x.Request.Context().Err() != nil:
		return nginxstatus.ClientGone
	case err != nil:
		x.Errorf(errorlog.LevelError, "user %q: %v", name, err)
		return http.StatusServiceUnavailable
	case !isRight:
		if f.Has(name) {
			x.Errorf(errorlog.LevelError, "user %q: password mismatch", name)
		} else {
			x.Errorf(errorlog.LevelError, "user %q was not found in %q", name, path)
		}
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
func (p *password) challenge(x *core.Exchange, realm string) int {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, realm)
	x.Response.Header()["Www-Authenticate"] = []string{`Basic realm="` +
		strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean) + `"`}
	return http.StatusUnauthorized
}
