//go:build linux

package cli

import "fmt"

// checkForEvents rejects flags that do not apply to experiments of events.
func (f *weighFlags) checkForEvents(name string) error {
	if err := f.reject(name+", which counts events", "blocks", "warmup", "cores", "scenarios", "rate",
		"sweep", "why", "until", "within", "seed", "full", "on", "address",
		"agent-program", "fail-if"); err != nil {
		return err
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}
