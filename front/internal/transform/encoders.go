package transform

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tarehq/tare/front/internal/core"
)

const (
	// maxCompressing bounds the responses that are compressed by gzip at the same time, because
	// each takes up to a megabyte. More are sent uncompressed.
	maxCompressing = 512
	// maxHeavyCompressing is maxCompressing for Brotli and Zstandard, which take several megabytes.
	maxHeavyCompressing = 128
	// encoderWindow is the window of Brotli and Zstandard in bits: 512 KB, the default of
	// ngx_brotli.
	encoderWindow = 19
)

type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(to io.Writer)
}

// encoderPool is a free list of compressors of one coding and level.
type encoderPool struct {
	coding string
	level  int
	active *atomic.Int64 // compressors in use, of all levels
	most   int64
	idle   sync.Pool // of encoder
}

type encoderKey struct {
	coding string
	level  int
}

// compressing are the numbers of responses that are compressed: by gzip, and by Brotli or Zstandard.
type compressing struct{ gzip, heavy atomic.Int64 }

// encoderPoolOf returns the pool of a coding and level, which locations share.
func encoderPoolOf(c *core.Compiler, all *compressing, coding string, level int) *encoderPool {
	return core.Shared(c, encoderKey{coding, level}, func() *encoderPool {
		if coding == "gzip" {
			return &encoderPool{coding: coding, level: level, active: &all.gzip, most: maxCompressing}
		}
		return &encoderPool{coding: coding, level: level, active: &all.heavy, most: maxHeavyCompressing}
	})
}

// acquire returns a compressor, or nil if too many are in use.
func (s *encoderPool) acquire(to io.Writer) encoder {
	if s.active.Add(1) > s.most {
		s.active.Add(-1)
		return nil
	}
	if w, ok := s.idle.Get().(encoder); ok {
		w.Reset(to)
		return w
	}
	return s.newEncoder(to)
}

func (s *encoderPool) newEncoder(to io.Writer) encoder {
	switch s.coding {
	case "br":
		return brotli.NewWriterOptions(to, brotli.WriterOptions{Quality: s.level, LGWin: encoderWindow})
	case "zstd":
		// without concurrency it has no goroutines; the options are valid
		w, _ := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(s.level)),
			zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<encoderWindow), zstd.WithLowerEncoderMem(true))
		return w
	}
	w, _ := gzip.NewWriterLevel(to, s.level) // the level is valid
	return w
}

func (s *encoderPool) release(w encoder) {
	w.Reset(io.Discard) // drops the reference to the response
	s.idle.Put(w)
	s.active.Add(-1)
}
