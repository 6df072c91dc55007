package lab_test

import (
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A variant is another contender with its own name, title and settings. The other one is unchanged.
func TestVariantsChangeSettings(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := programs.Root(t)
	e := testkit.Value(lab.ReadExperiment(filepath.Join(root, "experiments", "compress")))(t)
	dir := filepath.Join(root, "contenders")
	variant := testkit.Value(e.Spec(dir, "nginx-gzip-1"))(t)
	of := testkit.Value(e.Spec(dir, "nginx-text-nethttp"))(t)
	if variant.Name != "nginx-gzip-1" || variant.Title != "nginx, gzip 1" || variant.Set["gzip"] != "1" ||
		variant.Run != of.Run || variant.Front != of.Front || variant.About != of.About {
		t.Errorf("%+v", variant)
	}
	if of.Name != "nginx-text-nethttp" || len(of.Set) != 0 {
		t.Errorf("%+v", of)
	}
}
