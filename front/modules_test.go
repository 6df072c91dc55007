package front_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Each of these modules is a file: without it and its row the front compiles. Their packages do not
// import each other, so a module of each is removed at the same time.
func TestModulesAreRemovable(t *testing.T) {
	testkit.NoRace(t, "it only compiles")
	here, without := testkit.Value(os.Getwd())(t), filepath.Join(t.TempDir(), "modules.go")
	for _, removed := range []map[string]string{
		{"proxy.MirrorModule": "proxy/mirror.go", "clients.UserIDModule": "clients/userid.go",
			"guard.RefererModule": "guard/referers.go", "transform.CharsetModule": "transform/charset.go"},
		{"proxy.SliceModule": "proxy/slice.go", "clients.GeoModule": "clients/geo.go",
			"guard.SecureLinkModule": "guard/securelink.go", "transform.SubFilterModule": "transform/subfilter.go"},
		{"clients.SplitClientsModule": "clients/splitclients.go", "transform.AdditionModule": "transform/addition.go"},
	} {
		rows, files := string(testkit.Value(os.ReadFile("modules.go"))(t)), map[string]string{here + "/modules.go": without}
		for row, file := range removed {
			rows = strings.Replace(rows, "\t\t"+row+"(),\n", "", 1)
			files[filepath.Join(here, "internal", file)] = ""
		}
		overlay := filepath.Join(t.TempDir(), "overlay.json")
		testkit.Must(t, os.WriteFile(without, []byte(rows), 0o600))
		testkit.Must(t, os.WriteFile(overlay, testkit.Value(json.Marshal(map[string]any{"Replace": files}))(t), 0o600))
		if out, err := testkit.Command(t, "go", "build", "-overlay", overlay, ".").CombinedOutput(); err != nil {
			t.Errorf("without %v: %v\n%s", removed, err, out)
		}
	}
}
