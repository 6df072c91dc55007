package front

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/internal/testkit"
)

// A variable has one row: it is known here or unavailable, and a name belongs to one family only.
func TestVariableHasOneRow(t *testing.T) {
	known := core.AllVariables("tare", modules())
	for name, v := range known {
		if v.Get == nil || v.Set != nil && v.IsReplaceable || v.AppendTo != nil && (v.IsCached || v.IsReplaceable) {
			t.Errorf("$%s: contradictory row", name)
		}
		testkit.Equal(t, grammar.Unavailable(name), "", "why", name, "is unavailable")
		for _, m := range modules() {
			for _, f := range m.Families {
				if strings.HasPrefix(name, f.Prefix) {
					t.Errorf("$%s is also in the family %s", name, f.Prefix)
				}
			}
		}
	}
	n := len(core.AllVariables("", nil))
	for at, m := range modules() {
		if m.Variables != nil {
			n += len(m.Variables(core.Slot(at)))
		}
	}
	testkit.Equal(t, n, len(known), "rows of variables")
}
