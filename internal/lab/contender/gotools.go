package contender

import (
	"cmp"
	"context"
	"errors"
	"go/version"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// oldestGo is the first version of Go that downloads the version that a module requires.
const oldestGo = "go1.21"

const goRemedy = "apt-get install golang-go"

// BinDir returns the folder for built programs.
func (t *Tools) BinDir() string {
	return cmp.Or(t.Bin, filepath.Join(t.Cache, "bin"))
}

// withFlags returns the words of a command with GoFlags, if the command is go build.
func (t *Tools) withFlags(words []string) []string {
	if len(words) < 2 || words[0] != Go || words[1] != "build" {
		return words
	}
	return slices.Concat(words[:2], t.GoFlags, words[2:])
}

// FindGo returns an error if Go programs cannot be built. dir is a folder of their module.
func (t *Tools) FindGo(ctx context.Context, dir string) error {
	t.goOnce.Do(func() { t.goErr = t.checkGo(ctx, dir) })
	return t.goErr
}

func (t *Tools) checkGo(ctx context.Context, dir string) error {
	if _, err := exec.LookPath(Go); err != nil {
		return missing(Go, "it is not in PATH", goRemedy)
	}
	if t.NoGo != "" {
		return missing("the source of tare", t.NoGo, "go install github.com/tarehq/tare/cmd/tare@latest")
	}
	// The go command executes the version that the module requires, which it may have to download.
	out, err := (&Command{Dir: dir, Env: t.GoEnv}).Run(ctx, Go, "env", "GOVERSION")
	is := lastLine(out)
	switch {
	case err != nil:
		return missing(Go, is, goRemedy)
	case version.IsValid(is) && version.Compare(is, oldestGo) < 0:
		return missing(Go, is+" is too old", "go install golang.org/dl/go1.26.0@latest")
	}
	return nil
}

// findModules returns an error if modules that a Go program requires can be neither found nor
// downloaded. dir is its folder.
func (t *Tools) findModules(ctx context.Context, dir string) error {
	command := Command{Dir: dir, Env: t.GoEnv}
	list := slices.Concat([]string{"list"}, t.GoFlags, []string{"-deps", "."})
	if _, err := command.Run(ctx, Go, list...); err == nil {
		return nil // it has all packages: the compiler has failed
	}
	out, err := command.Run(ctx, Go, "mod", "download")
	if err == nil {
		return nil
	}
	return missing("a module", lastLine(out), "go -C "+dir+" mod download")
}

// findTare returns the path of the command tare: built in the checkout, or the running program.
func (t *Tools) findTare(ctx context.Context) (string, error) {
	t.tareOnce.Do(func() { t.tare, t.tareErr = t.makeTare(ctx) })
	return t.tare, t.tareErr
}

func (t *Tools) makeTare(ctx context.Context) (string, error) {
	if t.Checkout == "" || t.Program != "" && t.FindGo(ctx, t.Checkout) != nil {
		if t.Program == "" {
			return "", missing(Tare, "this program is not tare", "go install github.com/tarehq/tare/cmd/tare@latest")
		}
		return t.Program, nil
	}
	bin := filepath.Join(t.BinDir(), "tare-command")
	s := &Spec{Title: "the command tare", Dir: t.Checkout, Build: Go + " build -o {bin} ./cmd/tare"}
	return bin, t.build(ctx, &Contender{Spec: s, Bin: bin})
}

// useBuiltin lets tare itself be the program of a contender if Go, or what Go needs, is missing. It
// reports whether it can be.
func (t *Tools) useBuiltin(c *Contender, need string, why error) bool {
	if _, ok := errors.AsType[*missingError](why); !ok || need != Go || c.Builtin == "" || t.Program == "" {
		return false
	}
	if len(c.builtin) == 0 {
		t.logf("%s is served by tare itself: %v", c.Title, why)
	}
	c.Bin, c.builtin = t.Program, strings.Fields(c.Builtin)
	return true
}
