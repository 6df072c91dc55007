package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// -T prints the same as nginx -T, also for files that are included several times or end without a
// line end.
func TestDumpIsThatOfNginx(t *testing.T) {
	t.Parallel()
	nginx := programs.Nginx(t)
	dir := openDir(t)
	for _, name := range []string{"servers", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"nginx.conf": `pid logs/pid; error_log logs/error.log;
events { worker_connections 100; }
http {
	access_log logs/access.log;
	client_body_temp_path logs/a; proxy_temp_path logs/b; fastcgi_temp_path logs/c; uwsgi_temp_path logs/d;
	scgi_temp_path logs/e;
	include types.conf;
	include servers/*.conf;
	include none*.conf;
}
`,
		"types.conf":     "types { text/html html; } # no line end",
		"empty.conf":     "",
		"servers/b.conf": "server { listen unix:" + dir + "/b;\n\tinclude empty.conf;\n}\n\n",
		"servers/a.conf": "server { listen unix:" + dir + "/a; include empty.conf; return 200 \"ü\"; }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	conf := filepath.Join(dir, "nginx.conf")
	theirs := testkit.Command(t, nginx.Bin, "-T", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "logs/error.log"))
	theirs.Env = append(os.Environ(), nginx.Env...)
	want, err := theirs.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := testkit.Command(t, "tare", "serve", "-c", conf, "-T").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
