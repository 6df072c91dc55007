package htpasswd

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/files"
)

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
