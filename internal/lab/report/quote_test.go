package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

const sourceRoot = "../../.."

func TestDocumentsQuoteTheirRecords(t *testing.T) {
	testkit.NoRace(t, "it multiplies the time of merging histograms, in one goroutine")
	changed, err := FillQuotes(sourceRoot, true)
	if err != nil || len(changed) > 0 {
		t.Errorf("figures of %v differ from their records (%v); \"tare report --docs\" in the root of the source writes them",
			changed, err)
	}
	ratio := regexp.MustCompile(`\d\.\d\d\s\(\d\.\d\d–\d\.\d\d\)`)
	var all strings.Builder
	for _, name := range documents(sourceRoot) {
		text := testkit.Value(os.ReadFile(name))(t)
		all.Write(text)
		if has := ratio.FindString(quoteMark().ReplaceAllString(string(text), "")); has != "" {
			t.Errorf("%s: the ratio %q has no record: want a mark, see quote.go", name, has)
		}
	}
	records := testkit.Value(filepath.Glob(filepath.Join(sourceRoot, RecordsDir, "*")))(t)
	for _, name := range records {
		info := testkit.Value(os.Stat(name))(t)
		base, isRecord := strings.CutSuffix(filepath.Base(name), sample.PackedSuffix)
		if !isRecord || info.Size() > mostRecordBytes {
			t.Errorf("%s: want a file of \"tare report --pack\" of at most %d bytes, not %d", name, mostRecordBytes, info.Size())
		}
		testkit.Contains(t, all.String(), "<!-- record: "+base+" ", name, "no document quotes it")
	}
}

// mostRecordBytes limits a record.
const mostRecordBytes = 500_000
