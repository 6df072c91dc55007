package cli_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A stock nginx.conf whose includes match no files is served, and so is a server added by a reload.
func TestStockConfigurationIsServed(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	if err := os.Chmod(f.dir, 0o777); err != nil { // the child makes the socket
		t.Fatal(err)
	}
	const stock = "error_log DIR/all.log info; error_log DIR/grave.log crit; events {} http { access_log DIR/log; include DIR/sites-enabled/*; }"
	f.configure(stock)
	f.start()
	f.await("tare: running as ")
	if err := os.Mkdir(f.path("sites-enabled"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, f.path("sites-enabled/site"), strings.ReplaceAll("server { listen unix:DIR/socket; root DIR/none; location = /x { return 200 x; } }", "DIR", f.dir))
	f.reload()
	get(t, f.over("socket"), "http://any/x", "x")
	if resp, err := f.over("socket").Get("http://any/none"); err != nil || resp.StatusCode != 404 {
		t.Fatalf("%v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	awaitText(t, f.path("all.log"), "No such file or directory")
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := read(t, f.path("grave.log")); text != "" {
		t.Errorf("the log of grave errors has %q", text)
	}
}
