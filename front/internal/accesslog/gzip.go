package accesslog

import (
	"bytes"
	"compress/gzip"
	"io"
)

// Compressed returns an opener of a file to which lines are written compressed. Each write is a
// member of its own, so a file that grows is always valid (RFC 1952, 2.2).
func Compressed(open func() (io.WriteCloser, error), level int) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		encoder, err := gzip.NewWriterLevel(io.Discard, level)
		if err != nil {
			return nil, err
		}
		out, err := open()
		if err != nil {
			return nil, err
		}
		return &compressor{out: out, encoder: encoder}, nil
	}
}

// compressor compresses what is written. After an error the caller writes the same bytes again.
type compressor struct {
	out     io.WriteCloser
	encoder *gzip.Writer
	member  bytes.Buffer // what has to be written still
	length  int          // of what member contains
}

// Write implements io.Writer.
func (c *compressor) Write(p []byte) (int, error) {
	if c.member.Len() == 0 {
		c.encoder.Reset(&c.member)
		_, _ = c.encoder.Write(p) // a Buffer accepts everything
		_ = c.encoder.Close()
		c.length = len(p)
	}
	if _, err := c.member.WriteTo(c.out); err != nil {
		return 0, err
	}
	c.member.Reset()
	return c.length, nil
}

// Close implements io.Closer.
func (c *compressor) Close() error { return c.out.Close() }
