package files

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

// descriptors are the idle open files of a variant. Each response that is being sent uses a
// descriptor of its own: sendfile reads at the descriptor's offset, and net/http offers no other
// way. Opening the file each time would cost a tenth of sending 100 KB.
type descriptors struct {
	mu      sync.Mutex
	idle    []*os.File
	total   *atomic.Int64 // of all variants; set when the first one is kept
	lent    bool          // since the last sweep
	retired bool
}

// errChanged reports that a file is no longer the one that was loaded.
var errChanged = errors.New("file has changed")

func (d *descriptors) pop() *os.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent = true
	last := len(d.idle) - 1
	if last < 0 {
		return nil
	}
	f := d.idle[last]
	d.idle[last] = nil
	d.idle = d.idle[:last]
	d.total.Add(-1)
	return f
}

// keep stores a descriptor for later, or closes it.
func (d *descriptors) keep(f *os.File, total *atomic.Int64, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	full := d.retired || len(d.idle) >= maxIdle
	if !full && total.Add(1) > int64(most) {
		total.Add(-1)
		full = true
	}
	if full {
		_ = f.Close()
		return
	}
	d.total = total
	d.idle = append(d.idle, f)
}

// retire closes all descriptors, now and when they return.
func (d *descriptors) retire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = true
	d.closeIdle()
}

// sweep closes the idle descriptors if none was lent since the last sweep: they keep the disk from
// freeing deleted files. With always it closes them in any case.
func (d *descriptors) sweep(always bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if always || !d.lent {
		d.closeIdle()
	}
	d.lent = false
}

func (d *descriptors) closeIdle() {
	for _, f := range d.idle {
		_ = f.Close()
		d.total.Add(-1)
	}
	d.idle = nil
}

// borrow returns a descriptor of a variant's file. It returns errChanged if the file has changed.
func (h *Handler) borrow(v *variant) (*os.File, error) {
	f := v.files.pop()
	if f == nil {
		o, err := h.open(v.name)
		if err != nil {
			return nil, errors.Join(errChanged, err)
		}
		f = o.File
	}
	if now, err := stampOf(f); err != nil || now != v.stamp {
		_ = f.Close()
		return nil, errChanged
	}
	return f, nil
}

func (h *Handler) giveBack(v *variant, f *os.File) {
	v.files.keep(f, &h.idle, h.plan.config.Limits.Descriptors)
}
