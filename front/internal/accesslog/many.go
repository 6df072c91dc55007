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
)

// marker precedes and follows the path in a line for many files.
const marker = 0

// AppendPath appends what precedes a line for many files: the path of its file.
func AppendPath(b []byte, path string) []byte {
	return append(append(append(b, marker), path...), marker)
}

// IsPath reports whether AppendPath can append a path.
func IsPath(path string) bool { return !strings.ContainsAny(path, "\x00\n") }

// Many returns a writer of lines to many files. AppendPath has begun each line. Each Write opens
// the files of its lines for appending. A line that cannot be written is lost, and reported.
func Many(open func(path string) (io.WriteCloser, error), report func(text string)) io.WriteCloser {
	return &manyFiles{open: open, report: report}
}

// manyFiles writes lines to the files that they name. One goroutine writes, and any one closes.
type manyFiles struct {
	open     func(path string) (io.WriteCloser, error)
	report   func(text string)
	isClosed atomic.Bool

	mu         sync.Mutex // guards the rest; held while lines are written, which may block
	lost       int        // lines that were not reported
	why        error
	lastReport time.Time
}

// reportEvery is the minimum time between two reports of lost lines.
const reportEvery = 10 * time.Second

// Write implements io.Writer. It never fails.
func (m *manyFiles) Write(lines []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string // in the order of their first lines
	texts := make(map[string]*bytes.Buffer)
	for rest := lines; len(rest) > 0; {
		end := bytes.Index(rest, []byte("\n\x00")) + 1 // where the next line with a path begins
		if end == 0 {
			end = len(rest)
		}
		path, line, ok := bytes.Cut(bytes.TrimPrefix(rest[:end], []byte{marker}), []byte{marker})
		if rest = rest[end:]; !ok {
			continue // AppendPath has not begun it
		}
		text := texts[string(path)]
		if text == nil {
			text = new(bytes.Buffer)
			texts[string(path)], paths = text, append(paths, string(path))
		}
		text.Write(line)
	}
	for _, path := range paths {
		text, err := texts[path].Bytes(), os.ErrClosed
		if !m.isClosed.Load() {
			err = m.write(path, text)
		}
		if err == nil {
			continue
		}
		m.lost, m.why = m.lost+bytes.Count(text, []byte("\n")), err
		if time.Since(m.lastReport) >= reportEvery {
			m.reportLost()
		}
	}
	return len(lines), nil
}

func (m *manyFiles) write(path string, text []byte) error {
	f, err := m.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(text)
	return err
}

func (m *manyFiles) reportLost() {
	if m.lost > 0 {
		m.report(fmt.Sprintf("%d lines lost: %v", m.lost, m.why))
		m.lost, m.lastReport = 0, time.Now()
	}
}

// Close implements io.Closer. A Write of another goroutine ends after the file that it writes. Its
// caller calls Close, too.
func (m *manyFiles) Close() error {
	m.isClosed.Store(true)
	if m.mu.TryLock() {
		defer m.mu.Unlock()
		m.reportLost()
	}
	return nil
}
