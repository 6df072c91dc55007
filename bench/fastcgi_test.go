package bench_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/load"
)

// Contenders of the experiments behind nginx.
const (
	proxyNetHTTP  = "nginx-nethttp"
	proxyTare     = "nginx-tare"
	proxyTareUnix = "nginx-tare-unix"
	fcgiTCP       = "nginx-fcgi-tcp"
	fcgiUnix      = "nginx-fcgi-unix"
	tareFCGITCP   = "nginx-tare-fcgi-tcp"
	tareFCGIUnix  = "nginx-tare-fcgi-unix"
)

// fastCGI returns the cases of applications behind nginx. All their processes share one processor.
func fastCGI() []scenario {
	return []scenario{
		{name: "fastcgi-tcp", subject: tareFCGITCP, measure: behindNginx, bounds: []bound{
			{of: appCPU, than: fcgiTCP, require: 0.25}, {of: appCPU, than: proxyTare, require: 1.15},
			{of: transfers, require: 2.2}, {of: transfers, than: fcgiTCP},
			{of: calls, require: 2.2}, {of: calls, than: fcgiTCP},
		}},
		{name: "fastcgi-unix", subject: tareFCGIUnix, measure: behindNginx, bounds: []bound{
			{of: appCPU, than: fcgiUnix, require: 0.25}, {of: appCPU, than: proxyTareUnix, require: 1.15},
			{of: transfers, require: 2.2}, {of: transfers, than: fcgiUnix}, {of: calls, require: 2.2},
			{of: calls, than: fcgiUnix}, {of: rate, than: proxyNetHTTP, require: 1, least: true},
			{of: rate, than: fcgiUnix, require: 3, least: true},
		}},
	}
}

// prepareBehindNginx builds the contenders and begins to count system calls.
func (f *field) prepareBehindNginx(t testing.TB) {
	t.Helper()
	root := programs.Root(t)
	var err error
	if f.proxy, err = contender.ParseNginxConf(filepath.Join(root, "experiments", "front", "nginx.conf")); err != nil {
		t.Fatal(err)
	}
	tools := programs.Tools(t)
	for _, name := range []string{
		proxyNetHTTP, proxyTare, proxyTareUnix, fcgiTCP, fcgiUnix, tareFCGITCP, tareFCGIUnix,
	} {
		spec, err := contender.ReadSpec(filepath.Join(root, "contenders", name))
		if err != nil {
			t.Fatal(err)
		}
		if f.contenders[name], err = tools.Prepare(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
	}
	if f.calls, err = proc.CountCalls(); err != nil {
		t.Logf("system calls are not counted: %v", err)
		return
	}
	t.Cleanup(func() { _ = f.calls.Close() })
}

// behindNginx loads nginx and measures the application behind it.
func behindNginx(f *field, server string) (values sample, err error) {
	r, err := f.start(server, f.server, "/")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	var before, after appLook
	result, err := load.Run(context.Background(), load.Plan{
		URL: "http://" + r.Address + "/", Connections: 64, Warmup: f.warmup, Duration: f.load, Timeout: patience,
		Threads: len(f.generator), CPUs: f.generator,
		Trace: &load.Trace{Started: func() { before.take(f, r) }, Ended: func() { after.take(f, r) }},
	})
	if err := errors.Join(err, before.err, after.err, faultless(result)); err != nil {
		return nil, err
	}
	n := float64(result.Requests)
	values = sample{rate: result.PerSecond(), appCPU: (after.cpuUs - before.cpuUs) / n}
	if f.calls != nil {
		for number, made := range after.calls {
			made -= before.calls[number]
			values[calls] += float64(made) / n
			if transfersBytes(number) {
				values[transfers] += float64(made) / n
			}
		}
	}
	return values, nil
}

// faultless returns an error if a run had no requests, or failed ones. It accepts nil.
func faultless(r *load.Result) error {
	if r != nil && (r.Requests == 0 || r.Errors.Total() > 0) {
		return fmt.Errorf("%d requests and %d errors under load: %s", r.Requests, r.Errors.Total(), r.Errors.First)
	}
	return nil
}

// transfersBytes reports whether a system call reads or writes.
func transfersBytes(number int) bool {
	switch number {
	case syscall.SYS_READ, syscall.SYS_READV, syscall.SYS_RECVFROM, syscall.SYS_RECVMSG,
		syscall.SYS_WRITE, syscall.SYS_WRITEV, syscall.SYS_SENDTO, syscall.SYS_SENDMSG:
		return true
	}
	return false
}

// appLook is the CPU time and the calls of the application behind nginx so far.
type appLook struct {
	cpuUs float64
	calls map[int]uint64
	err   error
}

func (l *appLook) take(f *field, r *running) {
	*l = appLook{}
	usages, err := r.Usages()
	if l.err = err; err != nil {
		return
	}
	var processes []proc.Process
	for _, c := range proc.Costs(nil, usages[contender.RoleApplication]) {
		l.cpuUs += micros(c.CPU())
	}
	for _, u := range usages[contender.RoleApplication] {
		processes = append(processes, proc.Process{PID: u.PID})
	}
	if f.calls != nil {
		l.calls, l.err = f.calls.Of(processes)
	}
}
