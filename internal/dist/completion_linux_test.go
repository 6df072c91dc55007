package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// linkedProgram returns a folder in which this test is a program with the product's name: TestMain
// then runs the command.
func linkedProgram(t *testing.T) (folder string) {
	t.Helper()
	self := testkit.Value(os.Executable())(t)
	folder = t.TempDir()
	testkit.Must(t, os.Symlink(self, filepath.Join(folder, productName)))
	return folder
}

// completed returns what a shell completes. The script receives the package's completion as its
// first argument, and then args.
func completed(t *testing.T, shell, path string, env []string, flags []string, script string, args ...string) string {
	t.Helper()
	text := testkit.Value(help(t.Context(), "completion", shell))(t)
	completion, run := filepath.Join(t.TempDir(), "completion"), filepath.Join(t.TempDir(), "run")
	for name, text := range map[string]string{completion: text, run: script} {
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	c := testkit.Command(t, path, append(append(flags, run, completion), args...)...)
	c.Env = append(append(os.Environ(), env...), "PATH="+linkedProgram(t)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	var messages strings.Builder
	c.Stderr = &messages
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", shell, err, messages.String())
	}
	return string(out)
}

func wantCompleted(t *testing.T, out string, want, unwanted string) {
	t.Helper()
	if !strings.Contains(out, want) || strings.Contains(out, unwanted) {
		t.Errorf("got %q, want %s and not %s", out, want, unwanted)
	}
}

// bash, with the functions of its package for completions, completes commands and flags.
func TestBashCompletesCommands(t *testing.T) {
	const script = `. "$2"; . "$1"
complete -p tare
for line in "tare ser" "tare serve --expl"; do
	COMP_WORDS=($line) COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMP_KEY=9
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=()
	__start_tare
	printf '%s\n' "${COMPREPLY[@]}"
done
`
	out := completed(t, "bash", "bash", nil, []string{"--norc"}, script, programs.BashCompletion(t))
	wantCompleted(t, out, "\nserve\n", "load")
	wantCompleted(t, out, "\n--explain\n", "--listen")
}

// zsh completes commands and flags. Only the function that shows the choices is replaced.
func TestZshCompletesCommands(t *testing.T) {
	path, modules, env := programs.Zsh(t)
	const script = `module_path=($2)
compdef() { :; }
. $1
_describe() { print -rl -- $completions; }
try() { words=($@); CURRENT=$#words; _tare; }
try tare ser
try tare serve --expl
`
	out := completed(t, "zsh", path, env, []string{"-f"}, script, modules)
	wantCompleted(t, out, "serve:", "load:")
	wantCompleted(t, out, "--explain:", "--listen:")
}

func TestFishCompletesCommands(t *testing.T) {
	path, env := programs.Installed(t, "fish", "fish")
	const script = `source $argv[1]
complete -C "tare ser"
complete -C "tare serve --expl"
`
	out := completed(t, "fish", path, env, []string{"--no-config"}, script)
	wantCompleted(t, out, "serve\t", "load\t")
	wantCompleted(t, out, "--explain\t", "--listen\t")
}
