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
	e, err := lab.ReadExperiment(filepath.Join(root, "experiments", "compress"))
	testkit.Must(t, err)
	dir := filepath.Join(root, "contenders")
	variant, err := e.Spec(dir, "nginx-gzip-1")
	testkit.Must(t, err)
	of, err := e.Spec(dir, "nginx-text-nethttp")
	testkit.Must(t, err)
	if variant.Name != "nginx-gzip-1" || variant.Title != "nginx, gzip 1" || variant.Set["gzip"] != "1" ||
		variant.Run != of.Run || variant.Front != of.Front || variant.About != of.About {
		t.Errorf("%+v", variant)
	}
	if of.Name != "nginx-text-nethttp" || len(of.Set) != 0 {
		t.Errorf("%+v", of)
	}
}
