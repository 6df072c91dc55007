package contender_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

func TestToggledChangesOneSetting(t *testing.T) {
	const base = "title: t\nabout: a\nneeds: [nginx]\nrun: \"x {port}\"\nprotocol: http\nfront: nginx\nenv: [A=1]\nset: {keepalive: off, buffers: many}\ntoggles:\n"
	for _, test := range []struct{ toggle, fault string }{
		{"  - {setting: s, set: {keepalive: on}, env: [B=2], run: \"y {port}\"}\n", ""},
		{"  - {setting: s, contender: other}\n", ""},
		{"  - {contender: other}\n", "contender.yaml:10: toggles: setting is missing"},
		{"  - {setting: s}\n", "contender.yaml:10: toggles: want either contender, or one of run, env and set"},
		{"  - {setting: s, contender: other, env: [B=2]}\n", "toggles: want either contender, or one of"},
		{"  - {setting: s, run: \"y 80\"}\n", "toggles: \"s\" makes an invalid contender: "},
	} {
		dir := t.TempDir()
		testkit.WriteFile(t, filepath.Join(dir, contender.FileName), base+test.toggle)
		s, err := contender.ReadSpec(dir)
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: got %v, want %q", test.toggle, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.toggle, err)
			continue
		}
		if s.Toggles[0].Contender != "" {
			continue
		}
		is := s.Toggled(&s.Toggles[0])
		if is.Run != "y {port}" || !slices.Equal(is.Env, []string{"A=1", "B=2"}) || is.Set["keepalive"] != "on" ||
			is.Set["buffers"] != "many" {
			t.Errorf("toggled: %+v", is)
		}
		if s.Run != "x {port}" || len(s.Env) != 1 || s.Set["keepalive"] != "off" {
			t.Errorf("the contender itself has changed: %+v", s)
		}
	}
}
