package contender

import (
	"errors"
	"io"
)

// maxOutput is the maximum of Output, in bytes.
const maxOutput = 1 << 20

// Output returns the output of a role's process, at most the last maxOutput bytes. If the contender
// has no such role, it returns nil.
func (r *Running) Output(role string) ([]byte, error) {
	for _, p := range r.parts {
		if p.role != role {
			continue
		}
		info, err := p.log.Stat()
		if err != nil {
			return nil, err
		}
		b := make([]byte, min(maxOutput, info.Size()))
		n, err := p.log.ReadAt(b, info.Size()-int64(len(b)))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return b[:n], err
	}
	return nil, nil
}
