package lab

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// sysctls returns the kernel settings that results over loopback may depend on.
func sysctls() map[string]string {
	values := make(map[string]string)
	for _, name := range []string{
		"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control", "net.core.somaxconn",
		"net.core.netdev_max_backlog", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_max_tw_buckets", "fs.file-max",
		"fs.nr_open", "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_tw_reuse",
	} {
		if v := proc.Setting(name); v != "" {
			values[name] = v
		}
	}
	return values
}

// Environment describes the machine. cores is the number of processors that a run may use.
func Environment(cores int) sample.Environment {
	e := sample.Environment{
		CPU: proc.CPUModel(), Cores: cores, Memory: proc.MemoryTotal(),
		System: system(), Go: runtime.Version(), Sysctls: sysctls(), Nofile: proc.OpenFiles(),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return e
}

func system() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return runtime.GOOS
}
