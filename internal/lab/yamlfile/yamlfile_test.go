package yamlfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestErrorsNameFileAndLine(t *testing.T) {
	type sub struct {
		Wait  Duration `yaml:"wait"`
		Cores []int    `yaml:"cores"`
	}
	type file struct {
		Title string `yaml:"title"`
		Sub   sub    `yaml:"sub"`
	}
	for _, test := range []struct{ name, text, want string }{
		{"fine", "title: x\nsub:\n  wait: 2s\n  cores: [1]\n", "<nil>"},
		{"unknown key", "title: x\ntitel: y\n", `f.yaml:2: unknown field "titel"`},
		{"unknown key inside", "title: x\nsub:\n  wait: 1s\n  wate: 2s\n", `f.yaml:4: unknown field "wate"`},
		{"key twice", "title: x\nsub:\ntitle: y\n", `f.yaml:3: mapping key "title" already defined at [1:1]`},
		{"wrong type", "title: x\nsub:\n  cores: many\n", `f.yaml:3: string was used where sequence is expected`},
		{"wrong time", "title: x\nsub:\n  wait: soon\n",
			`f.yaml:3: invalid duration "soon": want a time such as 500ms or 30s`},
		{"text for a number", "title: x\nsub:\n  cores: [one]\n", `f.yaml:3: want a whole number, got text "one"`},
		{"not YAML", "title: [x\n", "f.yaml:1: sequence end token ']' not found"},
		{"empty", "\n", "f.yaml: the file is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			testkit.WriteFile(t, "f.yaml", test.text)
			_, err := Read("f.yaml", new(file))
			testkit.Equal(t, fmt.Sprint(err), test.want)
		})
	}
	testkit.FailsWith(Read(filepath.Join(t.TempDir(), "none"), new(file)))(t, os.ErrNotExist)
}

func TestFaultHasTheLineOfItsPath(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f.yaml")
	testkit.WriteFile(t, name, "a: 1\nb:\n  c: 2\n  d:\n    - 3\n    - 4\n")
	f := testkit.Value(Read(name, new(map[string]any)))(t)
	for path, want := range map[string]int{"$.a": 1, "$.b.c": 3, "$.b.d[1]": 6, "$.b.missing": 3} {
		var e *Error
		if err := f.Fault(path, "x"); !errors.As(err, &e) || e.Line != want {
			t.Errorf("%s: got %v, want line %d", path, err, want)
		}
	}
}
