//go:build linux

package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/project"
)

// workspace is where weigh finds experiments, and where it puts results and software.
type workspace struct {
	root    string // has experiments/ and contenders/
	results string // receives the folder results/
	tools   *contender.Tools
}

// findWorkspace returns the checkout in which the command runs. Elsewhere it unpacks the
// experiments of this program, if they are needed, and results go to the current folder.
func findWorkspace(env Env, needsExperiments bool) (*workspace, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if root, ok := project.Find(env.Dir); ok {
		tools := &contender.Tools{Cache: filepath.Join(root, ".cache"), Program: self}
		if project.IsModule(root) {
			tools.Checkout = root
		}
		return &workspace{root, root, tools}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, &exitError{exitFail, fmt.Errorf("no folder for unpacked software: %w", err)}
	}
	source := project.Self(release)
	tools := &contender.Tools{
		Cache: filepath.Join(cache, "tare"), Program: self, GoEnv: []string{"GOWORK=off"}, GoFlags: source.Flags(),
	}
	if source.Unknown() {
		tools.NoGo = "this tare has no version that could be downloaded"
	}
	w := &workspace{root: env.Dir, results: env.Dir, tools: tools}
	if !needsExperiments {
		return w, nil
	}
	if w.root, err = project.Unpack(tools.Cache, source); err != nil {
		return nil, &exitError{exitFail, err}
	}
	tools.Bin = filepath.Join(w.root, "bin")
	return w, nil
}
