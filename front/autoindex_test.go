package front_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Programs can parse a listing whatever the names are. Package corpus compares it with nginx's.
func TestListingCanBeParsed(t *testing.T) {
	root := t.TempDir()
	names := []string{`"quote"`, `back\slash`, "new\nline", "<&>", "\u00fc"}
	at := time.Date(2024, 5, 1, 12, 30, 5, 0, time.UTC)
	for _, name := range names {
		path := filepath.Join(root, name)
		must(t, os.WriteFile(path, []byte("four"), 0o600))
		must(t, os.Chtimes(path, at, at))
	}
	must(t, os.Mkdir(filepath.Join(root, "sub"), 0o700))
	must(t, os.Symlink("nowhere", filepath.Join(root, "link")))
	in := func(format string) conf.Location {
		s := conf.Settings{Files: conf.Files{Alias: conf.Text(root + "/"), Listing: true, ListingFormat: format}}
		return conf.Location{Path: "/" + format + "/", Settings: &s}
	}
	a := serveHandler(t, newFront(t, oneHost(in("json"), in("html"))))

	var list []struct {
		Name, Type, Mtime string
		Size              *int
	}
	must(t, json.Unmarshal([]byte(a.get("/json/").body), &list))
	if len(list) != len(names)+2 || list[0].Name != "sub" || list[0].Type != "directory" || list[0].Size != nil {
		t.Fatalf("%+v", list)
	}
	for _, e := range list[1:] {
		isLink := e.Name == "link"
		if isLink != (e.Type == "other") || isLink != (e.Size == nil) ||
			!isLink && (*e.Size != 4 || e.Mtime != "Wed, 01 May 2024 12:30:05 GMT") {
			t.Errorf("%+v", e)
		}
	}

	if got := a.get("/html/").body; strings.Count(got, "<a href=") != len(names)+3 || strings.Contains(got, "<&>") {
		t.Errorf("%s", got)
	}
}
