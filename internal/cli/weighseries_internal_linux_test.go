package cli

import (
	"testing"

	"github.com/tarehq/tare/internal/page"
)

// The page of a series uses only fields and methods that exist, in all branches.
func TestSeriesTemplateUsesWhatExists(t *testing.T) {
	if err := page.Check(seriesSource, seriesOptions(), new(series)); err != nil {
		t.Error(err)
	}
}
