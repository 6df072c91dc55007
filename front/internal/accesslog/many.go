package accesslog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// marker precedes and follows the path in a line for many files.
const marker = 0

const (
	// maxManyFiles is how many files stay open, each for maxUnusedTime after its last line.
	maxManyFiles  = 64
	maxUnusedTime = 10 * time.Second
	// pathCheckTime is how long lines may go to a file that was renamed.
	pathCheckTime = time.Second
)

// AppendPath appends what precedes a line for many files: the path of its file.
func AppendPath(b []byte, path string) []byte {
	return append(append(append(b, marker), path...), marker)
}

// IsPath reports whether AppendPath can append a path.
func IsPath(path string) bool { return !strings.ContainsAny(path, "\x00\n") }

// Many returns an opener of a writer of lines to many files. AppendPath has begun each line. Files
// are opened for appending when lines for them are written. A line that cannot be written is lost,
// and reported.
func Many(open func(path string) (io.WriteCloser, error), report func(text string)) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		m := &manyFiles{open: open, report: report}
		m.opened, _ = simplelru.NewLRU(maxManyFiles, func(_ string, f *openedFile) {
			_ = f.Close() // all lines are in the file already
		})
		return m, nil
	}
}

// manyFiles writes lines to the files that they name. One goroutine writes, and any one closes.
type manyFiles struct {
	open     func(path string) (io.WriteCloser, error)
	report   func(text string)
	isClosed atomic.Bool

	mu         sync.Mutex // guards the rest; held while lines are written, which may block
	opened     *simplelru.LRU[string, *openedFile]
	lost       int // writes that were not reported
	why        error
	lastReport time.Time
}

type openedFile struct {
	io.WriteCloser
	used, checked time.Time
}

// reportEvery is the minimum time between two reports of lost lines.
const reportEvery = 10 * time.Second

// Write implements io.Writer. It never fails.
func (m *manyFiles) Write(lines []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeUnused()
	for rest := lines; len(rest) > 0; {
		end := bytes.Index(rest, []byte("\n\x00")) + 1 // where the next line with a path begins
		if end == 0 {
			end = len(rest)
		}
		path, line, ok := bytes.Cut(bytes.TrimPrefix(rest[:end], []byte{marker}), []byte{marker})
		if rest = rest[end:]; !ok {
			continue // AppendPath has not begun it
		}
		err := os.ErrClosed
		if !m.isClosed.Load() {
			err = m.write(string(path), line)
		}
		if err == nil {
			continue
		}
		if m.lost, m.why = m.lost+1, err; time.Since(m.lastReport) >= reportEvery {
			m.reportLost()
		}
	}
	return len(lines), nil
}

func (m *manyFiles) reportLost() {
	if m.lost > 0 {
		m.report(fmt.Sprintf("%d lines lost: %v", m.lost, m.why))
		m.lost, m.lastReport = 0, time.Now()
	}
}

func (m *manyFiles) write(path string, line []byte) error {
	now := time.Now()
	f, ok := m.opened.Get(path)
	if ok && now.Sub(f.checked) >= pathCheckTime {
		if f.checked = now; !leadsTo(path, f.WriteCloser) {
			m.opened.Remove(path)
			ok = false
		}
	}
	if !ok {
		out, err := m.open(path)
		if err != nil {
			return err
		}
		f = &openedFile{WriteCloser: out, checked: now}
		m.opened.Add(path, f)
	}
	f.used = now
	_, err := f.Write(line)
	return err
}

// closeUnused closes files without lines for maxUnusedTime.
func (m *manyFiles) closeUnused() {
	for {
		_, f, ok := m.opened.GetOldest()
		if !ok || time.Since(f.used) < maxUnusedTime {
			return
		}
		m.opened.RemoveOldest()
	}
}

// leadsTo reports whether a path leads to an open file.
func leadsTo(path string, out io.WriteCloser) bool {
	file, ok := out.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return true
	}
	open, err := file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(open, found)
}

// Close implements io.Closer. A Write of another goroutine ends after its line. Its caller calls
// Close, too.
func (m *manyFiles) Close() error {
	m.isClosed.Store(true)
	if !m.mu.TryLock() {
		return nil
	}
	defer m.mu.Unlock()
	m.opened.Purge()
	m.reportLost()
	return nil
}
