package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// Source is where unpacked Go contenders get the module of this program. The zero value is nowhere.
type Source struct {
	Version string // a version that the go command can download
	Folder  string // or else a folder with the module, absolute
}

// Self returns the source of the running program. release is the version of a program that was
// built for a release; "" if unknown.
func Self(release string) Source {
	// Unless the compiler trims paths, it records that of this file: in a checkout, or where the go
	// command has downloaded the module, which needs no second download then.
	if _, name, _, ok := runtime.Caller(0); ok && filepath.IsAbs(name) {
		if root := filepath.Dir(filepath.Join(name, "../../..")); IsModule(root) {
			return Source{Folder: root}
		}
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Path == modulePath && info.Main.Sum != "" {
		return Source{Version: info.Main.Version}
	}
	if release != "" && !strings.Contains(release, "+") {
		return Source{Version: release}
	}
	return Source{}
}

// Unknown reports whether there is no source, so that Go contenders cannot be built.
func (s Source) Unknown() bool { return s == Source{} }

// Flags returns the flags with which the go command builds contenders of an unpacked project. It
// adds the hashes of a version to go.sum, which it verifies as for any download. It does not look
// for a repository around the user's cache.
func (s Source) Flags() []string {
	flags := []string{"-buildvcs=false"}
	if s.Version != "" {
		flags = append(flags, "-mod=mod")
	}
	return flags
}

// apply returns the text of a file for an unpacked project: a go.mod requires this program's
// module from the source, where in a checkout it is replaced by the folder above.
func (s Source) apply(f txtar.File) ([]byte, error) {
	if path.Base(f.Name) != "go.mod" || s.Unknown() {
		return f.Data, nil
	}
	up := "replace " + modulePath + " => " + strings.Repeat("../", strings.Count(f.Name, "/")) + "\n"
	const require = modulePath + " v0.0.0\n"
	if bytes.Count(f.Data, []byte(up)) != 1 || bytes.Count(f.Data, []byte(require)) != 1 {
		return nil, fmt.Errorf("%s: want one line %q and one line %q", f.Name, up, require)
	}
	if s.Version != "" {
		text := bytes.Replace(f.Data, []byte(up), nil, 1)
		return bytes.Replace(text, []byte(require), []byte(modulePath+" "+s.Version+"\n"), 1), nil
	}
	return bytes.Replace(f.Data, []byte(up), []byte("replace "+modulePath+" => "+strconv.Quote(s.Folder)+"\n"), 1), nil
}

// sum returns a short name for files: the same for equal files.
func sum(all []txtar.File) string {
	const enough = 8 // bytes, which distinguish a few versions
	h := sha256.New()
	for _, f := range all {
		fmt.Fprintf(h, "%s %d\n%s", f.Name, len(f.Data), f.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:enough])
}
