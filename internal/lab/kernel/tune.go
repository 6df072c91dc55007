package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// Change is a setting that a run changes until it ends.
type Change struct {
	Tree
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

func (c *Change) String() string { return fmt.Sprintf("%s from %q to %q", c.Name, c.From, c.To) }

// Allowed returns an error that names every change that this process may not make.
func Allowed(changes []Change) error {
	var all error
	for _, c := range changes {
		if err := c.Writable(c.Name); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return all
}

// Keeper remembers changes and undoes them if this process is killed.
type Keeper interface {
	Keep(c Change)   // called before the change
	Forget(c Change) // called after it was undone
}

// Tuning is a number of applied changes. The caller must call Restore.
type Tuning struct {
	changes []Change
	keeper  Keeper
}

// Apply makes the changes, all of them or none.
func Apply(changes []Change, k Keeper) (*Tuning, error) {
	t := &Tuning{keeper: k}
	for _, c := range changes {
		if err := t.apply(c); err != nil {
			return nil, errors.Join(err, t.Restore())
		}
	}
	return t, nil
}

func (t *Tuning) apply(c Change) error {
	now, err := c.Read(c.Name)
	if err != nil {
		return err
	}
	if now != c.From {
		return fmt.Errorf("%s is %q and was %q a moment ago: another program changes it", c.Name, now, c.From)
	}
	t.changes = append(t.changes, c)
	t.keeper.Keep(c)
	if err := c.write(c.Name, c.To); err != nil {
		return err
	}
	if now, err = c.Read(c.Name); err == nil && now != c.To {
		return errors.Join(fmt.Errorf("%s cannot be %q: the kernel set it to %q", c.Name, c.To, now),
			c.write(c.Name, c.From))
	}
	return err
}

// Restore undoes the changes, the last one first, and continues after an error. It leaves settings
// alone that another program has changed meanwhile, and names them in the error. The keeper still
// remembers the changes that could not be undone.
func (t *Tuning) Restore() error {
	var all error
	for _, c := range slices.Backward(t.changes) {
		err := c.Undo()
		if err == nil || errors.Is(err, errForeign) {
			t.keeper.Forget(c)
		}
		if err != nil {
			all = errors.Join(all, err)
		}
	}
	t.changes = nil
	return all
}

// errForeign prevents the undoing of a change: another program has set another value.
var errForeign = errors.New("another program has changed it meanwhile, so it is not restored")

// Undo writes the value from before the change, unless the setting no longer has the value of the
// change.
func (c *Change) Undo() error {
	switch now, err := c.Read(c.Name); {
	case err != nil:
		return fmt.Errorf("%s was %s and cannot be restored: %w", c.Name, c.From, err)
	case now == c.From:
		return nil
	case now != c.To:
		return fmt.Errorf("%s was %s before the run and is %s: %w", c.Name, c.From, now, errForeign)
	}
	if err := c.write(c.Name, c.From); err != nil {
		return fmt.Errorf("%s was %s and cannot be restored: %w", c.Name, c.From, err)
	}
	return nil
}
