package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/internal/spool"
	"github.com/tarehq/tare/front/internal/syslog"
	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/privilege"
	"github.com/tarehq/tare/internal/safefile"
)

const (
	// logMode is the mode of new logs, which hold personal data.
	logMode  = 0o640
	logFlags = os.O_WRONLY | os.O_APPEND
	// stdio is the path of standard output for a Config with a Handler. Paths of nginx.conf are
	// absolute.
	stdio = "-"
	// logCloseTimeout limits the last writes of a log.
	logCloseTimeout = 2 * time.Second
)

// logFiles opens log files.
type logFiles struct {
	stdout, stderr io.Writer
	anchored       bool // paths will become inaccessible: files are found again by their directories

	mu     sync.Mutex
	opened map[string]*openedLog // by path
}

// openedLog is a log that was opened while the process had privileges.
type openedLog struct {
	file     *os.File // nil once it is in use
	isDevice bool     // or a pipe: file stays open for all uses
	anchor   *anchor.File
}

// prepare opens files for the user that will write them.
func (b *logFiles) prepare(paths []string, privileges *privilege.Plan) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, path := range paths {
		l := new(openedLog)
		b.opened[path] = l
		info, err := os.Stat(path)
		l.isDevice = err == nil && !info.Mode().IsRegular()
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			l.file, err = openLogFile(path, privileges)
		}
		if err == nil && b.anchored && !l.isDevice {
			l.anchor, err = anchor.New(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openLogFile opens a file for a log. It does not wait for readers of a pipe. A new file is owned by
// the user that will write it, unless a symbolic link led to it.
func openLogFile(path string, privileges *privilege.Plan) (*os.File, error) {
	flags := logFlags | os.O_CREATE
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		flags = os.O_RDWR | nonBlocking // needs no reader yet, and survives one that exits
	} else if err == nil && !info.Mode().IsRegular() {
		flags = logFlags | nonBlocking
	}
	file, how, err := safefile.OpenFile(path, flags, logMode)
	if uid, gid, ok := idsOf(privileges); err == nil && ok && how.Created && !how.Linked {
		if err = file.Chown(uid, gid); err != nil {
			file.Close()
			return nil, err
		}
	}
	return file, err
}

// idsOf returns the user and the group to change to, if any.
func idsOf(p *privilege.Plan) (uid, gid int, ok bool) {
	if p == nil {
		return 0, 0, false
	}
	return p.IDs()
}

func (b *logFiles) open(path string) (io.WriteCloser, error) {
	switch path {
	case "/dev/stdout", stdio:
		return accesslog.NopCloser{Writer: b.stdout}, nil
	case "/dev/stderr":
		return accesslog.NopCloser{Writer: b.stderr}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.opened[path]
	switch {
	case l == nil:
	case l.isDevice:
		return accesslog.NopCloser{Writer: l.file}, nil
	case l.file != nil:
		file := l.file
		l.file = nil
		return file, nil
	case l.anchor != nil:
		return l.anchor.Open(logFlags|os.O_CREATE, logMode)
	}
	return openLogFile(path, nil)
}

// anchors returns the directories by which files can be opened again, by path.
func (b *logFiles) anchors() map[string]*anchor.File {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]*anchor.File)
	for path, l := range b.opened {
		if l.anchor != nil {
			all[path] = l.anchor
		}
	}
	return all
}

// releaseAnchors closes the directories: files can no longer be reopened.
func (b *logFiles) releaseAnchors() {
	for _, a := range b.anchors() {
		a.Close()
	}
}

// close closes everything. Logs must have been closed.
func (b *logFiles) close() {
	b.releaseAnchors()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.opened {
		if l.file != nil {
			l.file.Close()
		}
	}
	clear(b.opened)
}

// logPaths returns the paths of logs that are known at the start.
func logPaths(c *conf.Config) (paths []string) {
	add := func(path string) {
		if path != "" && path != stdio && path != "stderr" && path != "/dev/stdout" && path != "/dev/stderr" &&
			!strings.Contains(path, "$") && !strings.HasPrefix(path, syslog.Prefix) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	addErrors := func(l *conf.ErrorLog) {
		for ; l != nil; l = l.Next {
			add(l.Path)
		}
	}
	addErrors(c.ErrorLog)
	for p := range places.Of(c) {
		for _, l := range p.Settings.Logs {
			add(l.Path)
		}
		addErrors(p.Settings.ErrorLog)
	}
	return paths
}

// cacheMode is the mode of new folders of caches and bodies.
const cacheMode = 0o700

// prepareDirs creates the folders of caches and of requests' bodies, and makes the serving user
// their owner, also of existing ones, as nginx does.
func prepareDirs(c *conf.Config, privileges *privilege.Plan) error {
	for i := range c.Caches {
		if err := prepareDir(c.Caches[i].Dir, privileges); err != nil {
			return fmt.Errorf("cache %q: %w", c.Caches[i].Name, err)
		}
	}
	prepared := make(map[string]bool)
	for p := range places.Of(c) {
		if dir := p.Settings.BodyDir; p.Settings.BodyFile != "" && !prepared[dir] {
			prepared[dir] = true
			if err := prepareDir(dir, privileges); err != nil {
				return fmt.Errorf("client_body_temp_path: %w", err)
			}
		}
	}
	return nil
}

func prepareDir(dir string, privileges *privilege.Plan) error {
	if dir == "" {
		return nil
	}
	if uid, _, ok := idsOf(privileges); ok {
		return safefile.GiveDir(dir, cacheMode, uid)
	}
	return cache.MakeDir(dir)
}

// stderrLog is a server's log on standard error. Writes to it never block the server.
type stderrLog struct{ spool *spool.Spool }

func newStderrLog(w io.Writer) stderrLog {
	return stderrLog{spool.New(accesslog.NopCloser{Writer: w}, spool.Config{
		Lost: func(n int, why error) []byte { return fmt.Appendf(nil, "tare: %d log lines lost: %v\n", n, why) },
	})}
}

func (l stderrLog) print(text string) {
	_, _ = l.spool.Write([]byte("tare: " + strings.ReplaceAll(text, "\n", " ") + "\n"))
}

func (l stderrLog) logger() *log.Logger { return log.New(l.spool, "tare: ", 0) }

func (l stderrLog) close() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	_ = l.spool.Close(ctx) // there is nowhere to report it
}
