package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

type builder struct {
	*project
	runner  *runner
	overlay overlay
	work    string // folder of what is built
	source  string // folder of the project: a copy, or that of the standard library
	out     result
}

// program is a built program: the tests of a package, or an application.
type program struct {
	ImportPath, Name, Dir, file string
	TestGoFiles, XTestGoFiles   []string
}

func (r *runner) newBuilder(p *project) *builder {
	work := filepath.Join(r.work, "project")
	return &builder{project: p, runner: r, overlay: maps.Clone(r.overlay), work: work,
		source: filepath.Join(work, "source"),
		out:    result{Name: p.name(), Version: p.Version, Go: r.goVersion, Tare: r.commit}}
}

func (b *builder) fail(err error) {
	if err != nil {
		b.out.Problem += err.Error() + "\n"
	}
}

func (b *builder) compareAll(ctx context.Context) {
	began := time.Now()
	programs, err := b.programs(ctx)
	b.fail(err)
	for _, p := range programs {
		if b.build(ctx, p) {
			b.compare(ctx, p)
		}
	}
	b.out.Seconds = int(time.Since(began).Seconds())
}

// programs downloads the module, copies it, builds the tools, and lists the programs.
func (b *builder) programs(ctx context.Context) (all []program, err error) {
	b.fail(os.Mkdir(b.work, 0o755))
	for _, tool := range b.Tools {
		_, err := b.runner.goTool(ctx, os.TempDir(), "install", tool)
		b.fail(err)
	}
	if b.Module == "std" {
		b.source = filepath.Join(b.runner.goroot, "src")
	} else {
		out, err := b.runner.goTool(ctx, os.TempDir(), "mod", "download", "-json", b.Module+"@"+b.Version)
		var module struct{ Dir, GoMod string }
		err = errors.Join(err, json.Unmarshal(out, &module))
		// Some modules have no go.mod file, and none contains the folder of another.
		const copyModule = `cp -r --no-preserve=mode "$0" "$2" && sed "/=> [.]/d" "$1" > "$2/go.mod"`
		copying := exec.CommandContext(ctx, "sh", "-c", copyModule, module.Dir, module.GoMod, b.source)
		if err = errors.Join(err, copying.Run()); err != nil {
			return nil, err
		}
	}
	list, err := b.runner.goTool(ctx, b.source, append([]string{"list", "-json", "-tags", b.Tags}, b.Packages...)...)
	for packages := json.NewDecoder(bytes.NewReader(list)); err == nil && packages.More(); {
		p := program{file: filepath.Join(b.work, "program")}
		if err = packages.Decode(&p); b.Script != "" || len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			all = append(all, p)
		}
	}
	return all, err
}

func (b *builder) build(ctx context.Context, p program) bool {
	file, suffix, args := "zz_tare_test.go", "_test", []string{"test", "-c", "-vet=off"}
	if b.Script != "" {
		file, suffix, args = "zz_tare.go", "", []string{"build"}
	}
	hook, tags := "package "+p.Name+suffix+"\n\nimport _ \"tarehq/hook\"\n", "tare_overlay,"+b.Tags
	err := b.overlay.add(b.work, filepath.Join(p.Dir, file), hook)
	config, jsonErr := json.Marshal(map[string]any{"Replace": b.overlay})
	b.fail(errors.Join(err, jsonErr, os.WriteFile(p.file+".json", config, 0o644)))
	// Without DWARF, which no test reads, linking takes half the CPU time.
	args = append(args, "-ldflags=-w", "-overlay", p.file+".json", "-tags", tags, "-o", p.file, p.ImportPath)
	_, err = b.runner.goTool(ctx, b.source, args...)
	b.fail(err)
	return err == nil
}
