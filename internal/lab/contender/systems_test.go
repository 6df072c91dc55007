package contender_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
)

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	testkit.WriteFile(t, file, text)
}

// prepare builds the contender in a folder, with a cache of the test's own.
func prepare(t *testing.T, dir string) (*contender.Contender, error) {
	t.Helper()
	return prepareWith(t, &contender.Tools{Cache: filepath.Join(t.TempDir(), "cache")}, dir)
}

func prepareWith(t *testing.T, tools *contender.Tools, dir string) (*contender.Contender, error) {
	t.Helper()
	return tools.Prepare(context.Background(), testkit.Value(contender.ReadSpec(dir))(t))
}

// A C program is built once, after a build that was interrupted, and prints its versions.
func TestContenderInCIsBuilt(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		testkit.Missing(t, err)
	}
	dir := t.TempDir()
	write(t, "#include <stdio.h>\nint main(void)\n{\n\tputs(\"one 1\\ntwo 2\");\n\treturn 0;\n}\n", dir, "main.c")
	write(t, "title: t\nabout: a\nneeds: [cc]\nbuild: cc -o {bin} main.c\nrun: \"{bin} {port}\"\nversion: \"{bin}\"\nprotocol: http\n", dir, contender.FileName)
	steps := 0
	ctx, cancel := context.WithCancel(t.Context())
	tools := &contender.Tools{Cache: t.TempDir(), Logf: func(string, ...any) { steps++; cancel() }}
	testkit.FailsWith(tools.Prepare(ctx, testkit.Value(contender.ReadSpec(dir))(t)))(t, context.Canceled)
	for range 2 {
		c := testkit.Value(prepareWith(t, tools, dir))(t)
		if n := len(c.Versions); n != 3 || c.Versions[n-2] != "one 1" || c.Versions[n-1] != "two 2" {
			t.Errorf("versions %q", c.Versions)
		}
	}
	testkit.Equal(t, steps, 2, "builds")
}

const perlServer = `# Sends each client a greeting.
use strict;
use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ARGV[0]", Listen => 64, ReuseAddr => 1) or die $!;
$SIG{TERM} = sub { exit };
while (my $c = $s->accept) {
	while (my $line = <$c>) { last if $line eq "\r\n" }
	print $c "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
}
`

// A contender of a language that the lab does not know is a folder with its program. If the
// language is missing, the error has the command that installs it.
func TestContenderOfAnyLanguageIsAFolder(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip(err)
	}
	const file = "title: Perl\nabout: a server\nprotocol: http\n" +
		"install: apt-get install perl\nrun: perl {home}/server.pl {port}\n"
	prepared := func(text string) (*contender.Contender, error) {
		dir := t.TempDir()
		write(t, perlServer, dir, "server.pl")
		write(t, text, dir, contender.FileName)
		return prepare(t, dir)
	}
	c, err := prepared(file)
	if err != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	stage := testkit.Value(contender.NewStage(contender.StageOptions{}))(t)
	r, err := stage.Start(t.Context(), c, contender.Setting{Cores: 1},
		equal.Ready(c, equal.Request{Method: "GET", Path: "/", Host: "a.b"}))
	if err == nil {
		err = r.Stop()
	}
	testkit.Check(t, errors.Join(err, stage.Close()))
	for text, want := range map[string]string{
		strings.Replace(file, "run: perl", "run: no-such-perl", 1):           `"apt-get install perl" installs it`,
		strings.Replace(file, "run:", "build: no-such-perl {home}\nrun:", 1): `"apt-get install perl" installs it`,
		"title: x\nabout: x\nprotocol: http\nrun: no-such-perl {port}\n":     "no-such-perl is missing: it is not in PATH",
	} {
		testkit.Fails(prepared(text))(t, want)
	}
}

func TestPlaceholdersAreReplaced(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	write(t, "a page", site, "page.txt")
	then := time.Unix(1_000_000_000, 0)
	testkit.Must(t, os.Chtimes(filepath.Join(site, "page.txt"), then, then))
	cpus := testkit.Value(contender.AllCPUs())(t)
	for _, test := range []struct {
		cores string
		want  string
	}{{"", "3"}, {contender.AllCores, fmt.Sprint(len(cpus))}} {
		s := &contender.Spec{
			Name: "server", Title: "t", Dir: dir, Protocol: contender.HTTP,
			Run: "{bin} play files {port} {home} {cores}", Site: "site", Cores: test.cores,
		}
		s.Ready.Within = yamlfile.Duration(patience)
		r, err := start(context.Background(), stage(t, contender.StageOptions{}),
			&contender.Contender{Spec: s, Bin: os.Args[0]}, contender.Setting{Cores: 3, CPUs: cpus[:1]})
		testkit.Must(t, err)
		a, err := equal.Fetch(context.Background(), r.Place(), equal.Request{Method: "GET", Path: "/", Host: "a"})
		if want := fmt.Sprintf("a page %d %s %s %s", then.Unix(), dir, test.want, test.want); err != nil ||
			string(a.Body) != want {
			t.Errorf("%s, want %s; %v", a.Body, want, err)
		}
		testkit.Check(t, r.Stop())
	}
}

// The error names what Python lacks, and the command that installs it.
func TestMissingPythonIsReported(t *testing.T) {
	for _, test := range []struct{ name, python, want string }{
		{"no python", "", `python3 is missing`},
		{"no venv", "case \"$*\" in *--clear*) echo ensurepip is not available; exit 1;; esac; echo 3.0", `python3-venv is missing: exit status 1: ensurepip is not available`},
		{"no package", "case \"$*\" in *--clear*) mkdir -p $4/bin; printf '#!/bin/sh\\necho hashes do not match; exit 1' > $4/bin/python; chmod +x $4/bin/python;; esac; echo 3.0", "hashes do not match"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, bin := t.TempDir(), t.TempDir()
			for _, tool := range []string{"mkdir", "chmod"} {
				if path, err := exec.LookPath(tool); err != nil || os.Symlink(path, filepath.Join(bin, tool)) != nil {
					t.Fatal(path, err)
				}
			}
			if test.python != "" {
				write(t, "#!/bin/sh\n"+test.python+"\n", bin, "python3")
				testkit.Must(t, os.Chmod(filepath.Join(bin, "python3"), 0o700))
			}
			t.Setenv("PATH", bin)
			write(t, "x==1\n", root, "python", "requirements.txt")
			write(t, "title: t\nabout: a\nneeds: [python]\nrun: \"{venv}/bin/python {port}\"\nprotocol: http\n", root, "c", contender.FileName)
			_, err := prepare(t, filepath.Join(root, "c"))
			testkit.Error(t, err, test.want)
			if remedy := `"apt-get install python3-venv" installs it`; test.name != "no package" && err != nil &&
				!strings.Contains(err.Error(), remedy) {
				t.Errorf("got %v, want %s", err, remedy)
			}
		})
	}
}

// Waiting for another process's virtual environment ends with the context.
func TestPrepareEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	write(t, "x==1\n", root, "python", "requirements.txt")
	write(t, "title: t\nabout: a\nneeds: [python]\nrun: \"{venv}/bin/python {port}\"\nprotocol: http\n", root, "c", contender.FileName)
	s := testkit.Value(contender.ReadSpec(filepath.Join(root, "c")))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	testkit.FailsWith((&contender.Tools{Cache: t.TempDir()}).Prepare(ctx, s))(t, context.Canceled)
}

// listens returns nil if a server accepts connections at an address.
func listens(_ context.Context, address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// A front gets its own configuration, and the certificate of all contenders of the stage.
func TestConfigAndCertificateAreWritten(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	dir := t.TempDir()
	file := filepath.Join(dir, "a.conf")
	testkit.WriteFile(t, file, "{{.Port}} {{.Cert}} {{.Key}}")
	s := stage(t, contender.StageOptions{})
	var pairs []string
	for range 2 {
		c := actor("front")
		c.Run, c.Front, c.FrontRun, c.Config, c.TLS = "", "front", "{bin} play front {conf}", "a.conf", true
		c.Conf = testkit.Value(contender.ParseNginxConf(file))(t)
		r := testkit.Value(s.Start(t.Context(), c, contender.Setting{Cores: 1}, listens))(t)
		if !r.Place().TLS {
			t.Error("clients do not connect by TLS")
		}
		port, pair, _ := strings.Cut(string(r.Files["a.conf"]), " ")
		if !strings.HasSuffix(r.Address, ":"+port) {
			t.Errorf("the configuration has port %q, the contender %s", port, r.Address)
		}
		pairs = append(pairs, pair)
		cert, key, _ := strings.Cut(pair, " ")
		testkit.Value(tls.LoadX509KeyPair(cert, key))(t)
		testkit.Check(t, r.Stop())
	}
	testkit.Equal(t, pairs[0], pairs[1], "the contenders' pairs")
}
