package front_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Each of these modules is a file: without it and its row the front compiles.
func TestModulesAreRemovable(t *testing.T) {
	testkit.NoRace(t, "it only compiles")
	rows := string(testkit.Value(os.ReadFile("modules.go"))(t))
	here, without := testkit.Value(os.Getwd())(t), filepath.Join(t.TempDir(), "modules.go")
	for row, file := range map[string]string{
		"proxy.MirrorModule": "proxy/mirror.go", "proxy.SliceModule": "proxy/slice.go",
		"clients.UserIDModule": "clients/userid.go", "clients.GeoModule": "clients/geo.go",
		"clients.SplitClientsModule": "clients/splitclients.go", "guard.RefererModule": "guard/referers.go",
		"guard.SecureLinkModule": "guard/securelink.go", "transform.CharsetModule": "transform/charset.go",
		"transform.SubFilterModule": "transform/subfilter.go", "transform.AdditionModule": "transform/addition.go",
	} {
		testkit.Must(t, os.WriteFile(without, []byte(strings.Replace(rows, "\t\t"+row+"(),\n", "", 1)), 0o600))
		overlay := filepath.Join(t.TempDir(), "overlay.json")
		testkit.Must(t, os.WriteFile(overlay, testkit.Value(json.Marshal(map[string]map[string]string{"Replace": {
			filepath.Join(here, "modules.go"): without, filepath.Join(here, "internal", file): "",
		}}))(t), 0o600))
		if out, err := testkit.Command(t, "go", "build", "-overlay", overlay, ".").CombinedOutput(); err != nil {
			t.Errorf("without %s: %v\n%s", file, err, out)
		}
	}
}
