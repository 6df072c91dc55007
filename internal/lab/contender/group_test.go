package contender_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
)

// A command's children end with it, although they keep its output open, and it succeeds.
func TestCommandsLeaveNoChildren(t *testing.T) {
	var out bytes.Buffer
	c := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $!")
	c.Stdout = &out
	if err := contender.RunGroup(c); err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(out.String()))
	eventually(t, "the child ends", func() bool {
		text, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}
