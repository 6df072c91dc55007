package lab_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/testkit"
)

// fakeSettings makes a tree of kernel settings, and adds other settings to the experiment of a
// project.
func fakeSettings(t *testing.T, root string) kernel.Tree {
	t.Helper()
	tree := kernel.Tree{Root: t.TempDir()}
	for name, text := range map[string]string{
		filepath.Join(tree.Root, "fs/file-max"):             "10\n",
		filepath.Join(tree.Root, "net/core/somaxconn"):      "4096\n",
		filepath.Join(root, "experiments/small/kernel.txt"): "fs.file-max = 1000\nnet.core.somaxconn = 128\n",
	} {
		testkit.WriteFile(t, name, text)
	}
	file := filepath.Join(root, "experiments/small", lab.ExperimentFile)
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "kernel: kernel.txt\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func tuning(t *testing.T) lab.Options {
	t.Helper()
	root := project(t)
	return lab.Options{
		Root: root, Experiment: "small", Only: []string{"tcp"}, Tune: true,
		Kernel: fakeSettings(t, root), Guard: []string{"cat"},
		Adjust: func(all *lab.Trials) { quickly(all); all.Blocks = 1 },
	}
}

func fileMax(t *testing.T, o lab.Options) string {
	t.Helper()
	v, err := o.Kernel.Read("fs.file-max")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// During a run the kernel has the write-up's settings that matter. After it they are restored.
func TestTuneChangesKernelSettingsDuringTheRun(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	o := tuning(t)
	during := ""
	o.Progress = func(lab.Progress) { during = fileMax(t, o) }
	run, _, err := lab.Weigh(context.Background(), o)
	if err != nil || len(run.Warnings) > 0 {
		t.Fatal(err, run.Warnings)
	}
	if after := fileMax(t, o); during != "1000" || after != "10" {
		t.Errorf("during the run %s, after it %s", during, after)
	}
	if v := run.Environment.Sysctls; v["fs.file-max"] != "1000" || v["net.core.somaxconn"] != "4096" {
		t.Errorf("the report has %v", v)
	}
	remarks := strings.Join(report.New(run).Remarks(), " ")
	if want := "Kernel settings were changed during this run: fs.file-max from 10 to 1000."; !strings.Contains(remarks, want) {
		t.Errorf("%s; want %s", remarks, want)
	}
}

func TestTuneIsUndoneHoweverTheRunEnds(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	t.Run("error", func(t *testing.T) {
		o := tuning(t)
		file := filepath.Join(o.Root, "contenders/http/contender.yaml")
		if err := os.WriteFile(file, []byte("title: http\nabout: a\nrun: false {port}\nprotocol: http\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		if run, _, err := lab.Weigh(context.Background(), o); err == nil || !run.Tuned {
			t.Error(run, err)
		}
		if after := fileMax(t, o); after != "10" {
			t.Errorf("after it %s", after)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		o := tuning(t)
		ctx, cancel := context.WithCancel(context.Background())
		during := ""
		o.Progress = func(lab.Progress) { during = fileMax(t, o); cancel() }
		if _, _, err := lab.Weigh(ctx, o); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if after := fileMax(t, o); during != "1000" || after != "10" {
			t.Errorf("during the run %s, after it %s", during, after)
		}
	})
	t.Run("panic", func(t *testing.T) {
		o := tuning(t)
		during := ""
		o.Progress = func(lab.Progress) { during = fileMax(t, o); panic("lab_test: end of the run") }
		func() {
			defer func() { _ = recover() }()
			_, _, _ = lab.Weigh(context.Background(), o)
		}()
		if after := fileMax(t, o); during != "1000" || after != "10" {
			t.Errorf("during the run %s, after it %s", during, after)
		}
	})
}

// A missing guard, and settings that cannot be written, are reported before anything starts.
// Without Tune neither matters.
func TestTuneRequiresGuardAndPrivilege(t *testing.T) {
	o := tuning(t)
	o.Guard = nil
	if run, err := lab.Prepare(context.Background(), o); run != nil || err == nil ||
		!strings.Contains(err.Error(), "Tune requires a Guard") {
		t.Error(err)
	}
	o = tuning(t)
	file := filepath.Join(o.Kernel.Root, "net/ipv4/tcp_tw_reuse") // cannot be written, not even by root
	settings := filepath.Join(o.Root, "experiments/small/kernel.txt")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.Symlink("/proc/sys/kernel/osrelease", file),
		os.WriteFile(settings, []byte("net.ipv4.tcp_tw_reuse = 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	run, err := lab.Prepare(context.Background(), o)
	if e, ok := errors.AsType[*lab.UsageError](err); !ok || run != nil || e.Option != lab.OptionTune ||
		!strings.Contains(err.Error(), "tune: kernel settings cannot be changed; run as root") ||
		!strings.Contains(err.Error(), "\n  net.ipv4.tcp_tw_reuse: ") {
		t.Error(err)
	}
	o.Tune = false
	if run, err := lab.Prepare(context.Background(), o); err != nil || len(run.Kernel) != 1 ||
		run.Kernel[0].To != "1" {
		t.Error(run, err)
	}
}

func TestKernelSettingsErrorsNameFileAndLine(t *testing.T) {
	o := tuning(t)
	settings := filepath.Join(o.Root, "experiments/small/kernel.txt")
	testkit.WriteFile(t, settings, "a.b = 1\nnonsense\n")
	if _, err := lab.Prepare(context.Background(), o); err == nil ||
		!strings.Contains(err.Error(), `kernel.txt: line 2: "nonsense": want a setting`) {
		t.Error(err)
	}
	if err := os.Remove(settings); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Prepare(context.Background(), o); err == nil ||
		!strings.Contains(err.Error(), "experiment.yaml: kernel: open ") {
		t.Error(err)
	}
}
