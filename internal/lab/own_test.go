package lab_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
)

// ways returns the contenders of an experiment, each with its network.
func ways(s *lab.Experiment) (all []string) {
	for _, spec := range s.Specs {
		all = append(all, strings.TrimSuffix(spec.Name+" "+spec.Network, " "))
	}
	return all
}

// The placeholders in an application's command or environment determine its contenders.
func TestPlaceholdersDetermineWays(t *testing.T) {
	for _, test := range []struct {
		command, env, want []string
	}{
		{[]string{"sh", "{addr}"}, nil, []string{"alone", "nginx-tcp", "tare-front-tcp"}},
		{[]string{"sh", "--port={port}"}, nil, []string{"alone", "nginx-tcp", "tare-front-tcp"}},
		{[]string{"sh", "{socket}"}, nil, []string{"alone", "nginx-unix", "tare-front-unix"}},
		{[]string{"sh"}, []string{"PORT={port}"}, []string{"alone", "nginx-tcp", "tare-front-tcp"}},
		{[]string{"sh", "{addr}", "{socket}"}, nil, []string{
			"alone tcp", "nginx-tcp tcp", "nginx-unix unix", "tare-front-tcp tcp", "tare-front-unix unix",
		}},
		{[]string{"sh", "{socket}"}, []string{"A={addr}"}, []string{
			"alone tcp", "nginx-tcp tcp", "nginx-unix unix", "tare-front-tcp tcp", "tare-front-unix unix",
		}},
	} {
		own := contender.Spec{Command: test.command, Env: test.env, Folder: t.TempDir()}
		s, err := lab.Own(own, lab.OwnRequest{})
		if err != nil || !slices.Equal(ways(s), test.want) {
			t.Errorf("%q %q: %q, %v, want %q", test.command, test.env, ways(s), err, test.want)
		}
	}
	for want, own := range map[string]contender.Spec{
		"no command": {},
		"has no address to listen on: write {addr}": {Command: []string{"sh", "-c", "serve"}},
		"no program": {Command: []string{"./nothing", "{port}"}},
	} {
		own.Folder = t.TempDir()
		_, err := lab.Own(own, lab.OwnRequest{})
		testkit.As[*lab.UsageError](t, err, want)
	}
}

func TestErrorsOfBuildsNameTheBuild(t *testing.T) {
	dir := t.TempDir()
	good, bad := contender.Spec{Command: []string{"sh", "{port}"}, Folder: dir}, contender.Spec{Folder: dir}
	for _, test := range []struct {
		a, b   contender.Spec
		option lab.Option
	}{{bad, good, lab.OptionBuildA}, {good, bad, lab.OptionBuildB}} {
		_, err := lab.Builds(test.a, test.b, lab.OwnRequest{})
		if e, ok := errors.AsType[*lab.UsageError](err); !ok || e.Option != test.option ||
			err.Error() != string(test.option)+": no command" {
			t.Errorf("%s: got %v", test.option, err)
		}
	}
}

func TestReadOwnReadsWhatWriteWrote(t *testing.T) {
	dir := t.TempDir()
	odd := contender.Spec{
		Command: []string{"sh", "-c", "a \"b\" 'c' # d: {e} \\ \n", "{addr}", "{socket}"},
		Env:     []string{"A=b c: d", "B="},
		Folder:  filepath.Join(dir, "app"), Protocol: contender.FastCGI,
	}
	odd.Ready.Within = yamlfile.Duration(3 * time.Second)
	plain := contender.Spec{Command: []string{"sh", "{port}"}, Folder: dir}
	first, err := lab.Own(odd, lab.OwnRequest{Path: "/x?y=z#", Host: "a.b",
		Expect: lab.Expectation{Status: 201, SHA256: strings.Repeat("0a", 32)}})
	testkit.Must(t, err)
	second, err := lab.Builds(plain, odd, lab.OwnRequest{Expect: lab.Expectation{Status: 404, By: lab.ByStatus}})
	testkit.Must(t, err)
	third := testkit.Value(lab.Own(plain, lab.OwnRequest{}))(t)
	testkit.Equal(t, second.Quick.Blocks, 8, "blocks of two builds")
	for i, want := range []*lab.Experiment{first, second, third} {
		file := filepath.Join(dir, want.Name+".yaml")
		f := testkit.Value(os.Create(file))(t)
		testkit.Must(t, errors.Join(want.Write(f, dir, "tare weigh app.yaml"), f.Close()))
		got, err := lab.ReadOwn(file)
		testkit.Must(t, err)
		want.Dir, want.Name = dir, strings.TrimSuffix(filepath.Base(file), ".yaml")
		for _, s := range want.Specs {
			s.Dir = dir
		}
		byName := func(a, b *contender.Spec) int { return strings.Compare(a.Name, b.Name) }
		slices.SortFunc(want.Specs, byName)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d: got %+v, want %+v", i, got, want)
			for j := range got.Specs {
				t.Errorf("  got %+v\n want %+v", got.Specs[j], want.Specs[j])
			}
		}
	}
}

func TestMalformedOwnFilesAreRejectedWithTheirLine(t *testing.T) {
	const fine = `experiment:
  title: t
  request: {method: GET, path: /, host: a}
  expect: {by: control}
  control: one
  ways: [one, two-b]
  quick: {blocks: 1, measure: 1s, cores: [1], connections: [1]}
  full: {blocks: 1, measure: 1s, cores: [1], connections: [1]}
contenders:
  one: {title: t, about: a, command: [sh, "{addr}"], protocol: http}
  two-b: {title: t, about: a, command: [sh, "{addr}"], protocol: http}
`
	for _, test := range []struct{ from, to, want string }{
		{"", "", ""},
		{"  title: t\n", "", "title is missing"},
		{"by: control", "by: nobody", `app.yaml:4: by "nobody": want control or status`},
		{"by: control", "by: control, status: 200", "app.yaml:4: expect: by control excludes status"},
		{"by: control", "status: 200, sha256: zz", `app.yaml:4: sha256 "zz": want 64`},
		{"blocks: 1", "blocks: 0", "app.yaml:7: blocks: want 1 to 10000, got 0"},
		{"two-b: {", "three: {", `app.yaml:11: contender "three" is not among the experiment's ways`},
		{"two-b: {title: t, about: a, command: [sh, \"{addr}\"], protocol: http}", "", `contender "two-b" is missing`},
		{"  two-b: {title: t,", "  two-b: {", "app.yaml:11: title is missing"},
		{"one: {title: t, about: a, command: [sh, \"{addr}\"]", "one: {title: t, about: a, command: [sh]",
			"app.yaml:10: command: want {addr}, {port} or {socket}"},
		{"contenders:\n", "contendrs:\n", `app.yaml:9: unknown field "contendrs"`},
	} {
		file := filepath.Join(t.TempDir(), "app.yaml")
		testkit.WriteFile(t, file, strings.Replace(fine, test.from, test.to, 1))
		_, err := lab.ReadOwn(file)
		if test.want == "" {
			testkit.Check(t, err)
			continue
		}
		testkit.As[*yamlfile.Error](t, err, test.want, test.to)
	}
}
