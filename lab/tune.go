package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarehq/tare/lab/kernel"
	"github.com/tarehq/tare/lab/yamlfile"
)

// kernelSettings are those that the write-up gave its machine.
func (e *Experiment) kernelSettings() ([]kernel.Assignment, error) {
	if e.Kernel == "" {
		return nil, nil
	}
	file := filepath.Join(e.Dir, e.Kernel)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &yamlfile.Error{File: filepath.Join(e.Dir, ExperimentFile), What: fmt.Sprintf("kernel: %v", err)}
	}
	all, err := kernel.Parse(string(text))
	if err != nil {
		return nil, &yamlfile.Error{File: file, What: err.Error()}
	}
	return all, nil
}

// compareKernel sets the write-up's kernel settings beside this machine's. The error is a
// *UsageError if they are to be changed and may not be.
func (w *weighing) compareKernel() error {
	theirs, err := w.experiment.kernelSettings()
	if err != nil {
		return err
	}
	most := 0
	for _, c := range w.run.Conditions {
		most = max(most, c.Connections)
	}
	w.run.Kernel = kernel.Compare(w.Kernel, theirs, most)
	w.run.Environment.Sysctls = sysctls(w.Kernel)
	if !w.Tune {
		return nil
	}
	if len(w.Guard) == 0 {
		return errors.New("lab: Tune: want a Guard, which undoes what is changed should this process be killed")
	}
	if err := kernel.Allowed(kernel.Changes(w.Kernel, w.run.Kernel)); err != nil {
		return &UsageError{fmt.Sprintf("--tune: kernel settings cannot be changed here; run it with the privilege to do so, or leave it out:\n  %s",
			strings.ReplaceAll(err.Error(), "\n", "\n  "))}
	}
	return nil
}

// tune changes kernel settings, if that is wanted, until restore is called. k undoes it
// should this process be killed before.
func (w *weighing) tune(k kernel.Keeper) (restore func(), err error) {
	if !w.Tune {
		return func() {}, nil
	}
	changes := kernel.Changes(w.Kernel, w.run.Kernel)
	if len(changes) == 0 {
		w.note("--tune changed nothing: the write-up tells of no kernel setting that would make a difference to this run.")
		return func() {}, nil
	}
	tuning, err := kernel.Apply(changes, k)
	if err != nil {
		return nil, fmt.Errorf("lab: --tune: %w", err)
	}
	w.run.Tuned = changes
	w.run.Environment.Sysctls = sysctls(w.Kernel)
	told := make([]string, len(changes))
	for i, c := range changes {
		told[i] = fmt.Sprintf("%s from %s to %s", c.Name, c.From, c.To)
	}
	w.note("For this run kernel settings were changed: %s.", strings.Join(told, "; "))
	return func() {
		if err := tuning.Restore(); err != nil {
			w.warn("kernel settings: %v", err)
		}
	}, nil
}

// watchBounds has the report say which bounds of the kernel's were reached until told is
// called.
func (w *weighing) watchBounds() (told func()) {
	before, err := kernel.ReachedNow()
	return func() {
		after, errAfter := kernel.ReachedNow()
		if err = errors.Join(err, errAfter); err != nil {
			w.note("Which bounds of the kernel's were reached is not known: %v.", err)
			return
		}
		w.run.Reached = after.Since(before)
	}
}
