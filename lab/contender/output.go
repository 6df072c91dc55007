package contender

import (
	"errors"
	"io"
)

// maxOutput is how much of what a process printed is returned.
const maxOutput = 1 << 20

// Output returns what a role's process has printed, the last of it if it is long; nothing of a
// role that there is not.
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
