package lab

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/lab/report"
)

// sysctls are the kernel settings that the results may depend on, most of them set
// by one write-up or another.
func sysctls() []string {
	return []string{
		"net.core.somaxconn", "net.core.netdev_max_backlog", "net.core.rmem_max", "net.core.wmem_max",
		"net.ipv4.ip_local_port_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_max_syn_backlog",
		"net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control",
		"fs.file-max", "vm.overcommit_memory",
	}
}

// Environment says on what machine this runs. cores is how many processors it may use.
func Environment(cores int) report.Environment {
	e := report.Environment{
		CPU: proc.CPUModel(), Cores: cores, Memory: proc.MemoryTotal(),
		System: system(), Go: runtime.Version(), Sysctls: make(map[string]string),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		e.Nofile = limit.Max
	}
	for _, name := range sysctls() {
		if v := proc.Sysctl(name); v != "" {
			e.Sysctls[name] = v
		}
	}
	return e
}

// system returns the distribution's name.
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

// Version is this program's, and that of the Go that built it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version + " " + info.GoVersion
	}
	return "unknown"
}
