package contender_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/kernel"
)

// The guard undoes changes of kernel settings that were not withdrawn, unless another program has
// changed the setting.
func TestGuardUndoesChanges(t *testing.T) {
	tree := kernel.Tree{Root: t.TempDir()}
	lines := []string{`undo {"name": "no JSON`, `undo {"name": "../../outside", "from": "1", "to": "2"}`}
	line := func(verb string, c kernel.Change) {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, verb+" "+string(b))
	}
	now := map[string]string{"changed": "2", "foreign": "3", "undone": "2", "ports": "16384 65535"}
	for name, value := range now {
		write(t, value+"\n", tree.Root, "net", name)
		c := kernel.Change{Tree: tree, Name: "net." + name, From: "1", To: "2"}
		if name == "ports" {
			c.From, c.To = "32768 60999", value
		}
		line("undo", c)
		if name == "undone" {
			line("undone", c)
		}
	}
	contender.Guard(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	for name, want := range map[string]string{"changed": "1", "foreign": "3", "undone": "2", "ports": "32768 60999"} {
		b, err := os.ReadFile(filepath.Join(tree.Root, "net", name))
		if got := strings.TrimSpace(string(b)); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
