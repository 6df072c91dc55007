package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// kernelSettings returns the kernel settings of the write-up's machine.
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

// compareKernel compares the write-up's kernel settings with this machine's. The error is a
// *UsageError if Tune is set and this process may not change them.
func (w *runner) compareKernel() error {
	theirs, err := w.experiment.kernelSettings()
	if err != nil {
		return err
	}
	w.run.Kernel = kernel.Changes(w.Kernel, theirs, w.trials.mostConnections())
	w.run.Environment.Sysctls = sysctls(w.Kernel)
	if !w.Tune {
		return nil
	}
	if len(w.Guard) == 0 {
		return errors.New("lab: Tune requires a Guard, which restores kernel settings if this process is killed")
	}
	if err := kernel.Allowed(w.run.Kernel); err != nil {
		return UsageErrorf(OptionTune, "kernel settings cannot be changed; run as root, or do not change them:\n  %s",
			strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return nil
}

// tune changes kernel settings if Tune is set. restore undoes that. If this process is killed
// before, k undoes it.
func (w *runner) tune(k kernel.Keeper) (restore func(), err error) {
	if !w.Tune {
		return func() {}, nil
	}
	changes := w.run.Kernel
	if len(changes) == 0 {
		w.recorder.Note("No kernel setting was changed: none of the write-up's would make a difference to this run.")
		return func() {}, nil
	}
	tuning, err := kernel.Apply(changes, k)
	if err != nil {
		return nil, fmt.Errorf("lab: kernel settings: %w", err)
	}
	w.run.Tuned = true
	w.run.Environment.Sysctls = sysctls(w.Kernel)
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s from %s to %s", c.Name, c.From, c.To)
	}
	w.recorder.Note("Kernel settings were changed during this run: %s.", strings.Join(texts, "; "))
	return func() {
		if err := tuning.Restore(); err != nil {
			w.recorder.Warn("restoring kernel settings: %v", err)
		}
	}, nil
}

// watchBounds reads the kernel's counters of reached limits. done records in the run which limits
// were reached until it is called.
func (w *runner) watchBounds() (done func()) {
	before, err := kernel.ReachedNow()
	return func() {
		after, errAfter := kernel.ReachedNow()
		if err = errors.Join(err, errAfter); err != nil {
			w.recorder.Note("It is unknown which kernel limits were reached: %v.", err)
			return
		}
		w.run.Reached = after.Since(before)
	}
}
