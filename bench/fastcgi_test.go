package bench_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
)

// Contenders of the experiments behind nginx.
const (
	proxyNetHTTP  = "nginx-nethttp"
	proxyTare     = "nginx-tare"
	proxyTareUnix = "nginx-tare-unix"
	fcgiTCP       = "nginx-nethttp-fcgi-tcp"
	fcgiUnix      = "nginx-nethttp-fcgi-unix"
	tareFCGITCP   = "nginx-tare-fcgi-tcp"
	tareFCGIUnix  = "nginx-tare-fcgi-unix"
)

// fastCGI returns the cases of applications behind nginx. All their processes share one processor.
func fastCGI() []scenario {
	hello := scene{cores: 1, streams: []stream{{path: "/", connections: 64}}}
	return []scenario{
		{name: "fastcgi-tcp", subject: tareFCGITCP, scene: hello, bounds: []bound{
			{of: appCPU, than: fcgiTCP, require: 0.25}, {of: appCPU, than: proxyTare, require: 1.15},
			{of: transfers, require: 2.2}, {of: transfers, than: fcgiTCP},
			{of: calls, require: 2.2}, {of: calls, than: fcgiTCP},
		}},
		{name: "fastcgi-unix", subject: tareFCGIUnix, scene: hello, bounds: []bound{
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
		spec, err := contender.Find(filepath.Join(root, "contenders"), name)
		if err != nil {
			t.Fatal(err)
		}
		if f.contenders[name], err = tools.Prepare(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
	}
	counter, err := proc.CountCalls()
	if f.counts = err == nil; !f.counts {
		t.Logf("system calls are not counted: %v", err)
		return
	}
	if err := counter.Close(); err != nil {
		t.Fatal(err)
	}
}

// faultless returns an error if a run had no requests, or failed ones. It accepts nil.
func faultless(r *load.Result) error {
	if r != nil && (r.Requests == 0 || r.Errors.Total() > 0) {
		return fmt.Errorf("%d requests and %d errors under load: %s", r.Requests, r.Errors.Total(), r.Errors.First)
	}
	return nil
}
