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

// Cache says which of many files stay open. The zero value keeps none.
type Cache struct {
	Max      int           // number of files that are remembered; 0 keeps none open
	MinUses  int           // lines after which a file stays open
	Inactive time.Duration // time without a line after which a file is closed
	Valid    time.Duration // time after which it is checked whether the path still leads to the file
}

// AppendPath appends what precedes a line for many files: the path of its file.
func AppendPath(b []byte, path string) []byte {
	return append(append(append(b, marker), path...), marker)
}

// IsPath reports whether AppendPath can append a path.
func IsPath(path string) bool { return !strings.ContainsAny(path, "\x00\n") }

// Many returns an opener of a writer of lines to many files. AppendPath has begun each line. Files
// are opened for appending when lines for them are written. A line that cannot be written is lost,
// and reported.
func Many(open func(path string) (io.WriteCloser, error), cache Cache,
	report func(text string)) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		m := &manyFiles{open: open, cache: cache, report: report}
		m.known, _ = simplelru.NewLRU(max(1, cache.Max), func(_ string, k *knownFile) { k.close() })
		return m, nil
	}
}

// manyFiles writes lines to the files that they name. One goroutine writes, and any one closes.
type manyFiles struct {
	open     func(path string) (io.WriteCloser, error)
	cache    Cache
	report   func(text string)
	isClosed atomic.Bool

	mu         sync.Mutex // guards the rest; held while lines are written, which may block
	known      *simplelru.LRU[string, *knownFile]
	lost       int // writes that were not reported
	lastReport time.Time
}

// knownFile is a file that lines were written to.
type knownFile struct {
	out               io.WriteCloser // nil unless it stays open
	uses              int
	lastUse, verified time.Time
}

// reportEvery is the minimum time between two reports of lost lines.
const reportEvery = 10 * time.Second

// Write implements io.Writer. It never fails.
func (m *manyFiles) Write(lines []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeInactive()
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
		if err != nil {
			m.lose(err)
		}
	}
	return len(lines), nil
}

func (m *manyFiles) lose(err error) {
	if m.lost++; time.Since(m.lastReport) >= reportEvery {
		m.report(fmt.Sprintf("%d lines lost: %v", m.lost, err))
		m.lost, m.lastReport = 0, time.Now()
	}
}

// write appends a line to a file.
func (m *manyFiles) write(path string, line []byte) error {
	out, stays, err := m.file(path)
	if err != nil {
		return err
	}
	_, err = out.Write(line)
	if !stays {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	return err
}

// file returns an open file, and whether it stays open.
func (m *manyFiles) file(path string) (out io.WriteCloser, stays bool, err error) {
	if m.cache.Max <= 0 {
		out, err = m.open(path)
		return out, false, err
	}
	now := time.Now()
	k, ok := m.known.Get(path)
	if !ok {
		k = new(knownFile)
		m.known.Add(path, k)
	}
	k.uses++
	k.lastUse = now
	if k.out != nil && now.Sub(k.verified) >= m.cache.Valid {
		if k.verified = now; !leadsTo(path, k.out) {
			k.close()
		}
	}
	if k.out != nil {
		return k.out, true, nil
	}
	if out, err = m.open(path); err != nil {
		m.known.Remove(path)
		return nil, false, err
	}
	if k.uses < m.cache.MinUses {
		return out, false, nil
	}
	k.out, k.verified = out, now
	return out, true, nil
}

func (m *manyFiles) closeInactive() {
	for {
		_, k, ok := m.known.GetOldest()
		if !ok || time.Since(k.lastUse) < m.cache.Inactive {
			return
		}
		m.known.RemoveOldest()
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

func (k *knownFile) close() {
	if k.out != nil {
		_ = k.out.Close() // all lines are in the file already
		k.out = nil
	}
}

// Close implements io.Closer. A Write of another goroutine ends after its line. Its caller calls
// Close, too.
func (m *manyFiles) Close() error {
	m.isClosed.Store(true)
	if !m.mu.TryLock() {
		return nil
	}
	defer m.mu.Unlock()
	m.known.Purge()
	return nil
}
