package front_test

import (
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// Starting logs which users cannot log in.
func TestUnsupportedHashesAreLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	must(t, os.WriteFile(name, []byte("b:{PLAIN}x\na:$7$x$y\nc:\n"), 0o600))
	const want = `line 2: user "a" cannot log in: `
	var output strings.Builder
	c := conf.Config{Hosts: []conf.Host{{Defaults: &conf.Settings{Password: &conf.Password{Realm: "r",
		File: conf.Text(name)}}}}}
	h, err := front.New(c, front.LogErrors(log.New(&output, "", 0)))
	must(t, err)
	defer h.Close()
	if got := output.String(); !strings.HasPrefix(got, "front: [warn] auth_basic_user_file: "+name+": "+want) {
		t.Errorf("logged %q", got)
	}
}
