package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubernetesVersion is the version in internal/testkit/kubernetes/go.mod.
const kubernetesVersion = "v1.34.4"

// Kubernetes returns the folders of the programs of a cluster, and the environment that they need.
// The first time, it builds Kubernetes in the project's .cache folder, which takes about ten
// minutes of CPU time. containerd, runc, etcd, busybox and the network plugins are Debian's.
func Kubernetes(t testing.TB) (folders, env []string) {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	folder := filepath.Join(Root(t), ".cache", "kubernetes", kubernetesVersion)
	if _, err := os.Stat(filepath.Join(folder, "kubectl")); err != nil {
		buildKubernetes(t, folder)
	}
	folders = append(folders, folder)
	for _, name := range []string{"containerd", "runc", "etcd-server", "containernetworking-plugins",
		"busybox-static"} {
		tree, err := Tools(t).Package(context.Background(), name)
		if err != nil {
			skipMissing(t, name+": "+err.Error())
		}
		for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib/cni", "bin"} {
			if found := filepath.Join(tree.Root, dir); isFolder(found) {
				folders = append(folders, found)
			}
		}
		env = joinLibraryPaths(env, tree.Env())
	}
	return folders, env
}

// joinLibraryPaths merges the LD_LIBRARY_PATH of two environments.
func joinLibraryPaths(a, b []string) []string {
	const key = "LD_LIBRARY_PATH="
	var dirs []string
	for _, e := range slices.Concat(a, b) {
		dirs = append(dirs, strings.TrimPrefix(e, key))
	}
	return []string{key + strings.Join(dirs, ":")}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// buildKubernetes builds the tools of the nested module.
func buildKubernetes(t testing.TB, folder string) {
	t.Helper()
	work := folder + ".building"
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", work,
		"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+kubernetesVersion, "tool")
	build.Dir = filepath.Join(Root(t), "internal", "testkit", "kubernetes")
	if out, err := build.CombinedOutput(); err != nil {
		skipMissing(t, "kubernetes: "+err.Error()+"\n"+string(out))
	}
	if err := os.Rename(work, folder); err != nil {
		t.Fatal(err)
	}
}
