package bench_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The fronts, and a server without front for comparison.
const (
	alone      = "tare-alone" // with the handler of the fronts' application
	frontBound = "tare-front-bound"
	frontProxy = "tare-front-nethttp"
	frontFCGI  = "tare-front-nethttp-fcgi-unix"
	frontCache = "tare-front-cache"
	nginxCache = "nginx-cache"
)

const (
	frontCPU = "front-cpu-µs" // of the front alone, for each request
	kilobyte = 1 << 10
)

// cached configures a front with a cache. The application is another process.
const cached = `proxy_cache_path {{.Dir}}/cache keys_zone=kept:10m;
server {
	listen 127.0.0.1:{{.Port}};
	location / {
		proxy_cache kept;
		proxy_cache_valid 200 1h;
		proxy_pass {{.Setting "application"}};
	}
}
`

// fronts returns the cases of fronts: one with a bound handler, one as a proxy, one as a FastCGI
// client, and one that responds from its cache.
func fronts() []scenario {
	hit := scene{cores: 1, streams: []stream{{path: "/kilobyte", connections: 64}}}
	hello := scene{cores: 1, streams: []stream{{path: "/", connections: 64}}}
	return []scenario{
		{name: "front-bound", subject: frontBound, scene: hello, bounds: []bound{
			{of: cpu, than: alone, require: 1.1}, {of: rate, than: proxyNetHTTP, require: 2, least: true},
		}},
		{name: "front-proxy", subject: frontProxy, scene: hello,
			bounds: []bound{{of: frontCPU, than: proxyNetHTTP, require: 1.2, aim: 1}}},
		{name: "front-fastcgi", subject: frontFCGI, scene: hello,
			bounds: []bound{{of: frontCPU, than: fcgiUnix, require: 1.2, aim: 1}}},
		{name: "front-cache", subject: frontCache, scene: hit,
			bounds: []bound{{of: cpu, than: nginxCache, require: 1.2, aim: 1}}},
	}
}

// prepareFronts builds the fronts and starts the application whose responses are cached.
func (f *field) prepareFronts(t testing.TB) {
	t.Helper()
	root, tools := programs.Root(t), programs.Tools(t)
	for name, folder := range map[string]string{alone: ours, frontBound: frontBound, frontProxy: frontProxy,
		frontFCGI: frontFCGI} {
		spec, err := contender.Find(filepath.Join(root, "contenders"), folder)
		if err != nil {
			t.Fatal(err)
		}
		if f.contenders[name], err = tools.Prepare(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
	}
	conf := oneWorker(cached)
	f.kept = bytes.Repeat([]byte("0123456789abcde\n"), kilobyte/16)
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(f.kept)
	}))
	t.Cleanup(application.Close)
	set := map[string]string{"application": application.URL}
	spec := &contender.Spec{
		Name: frontCache, Title: frontCache, Dir: root, Protocol: contender.HTTP, Front: "tare",
		Needs: []string{contender.Go, contender.Nginx}, FrontBuild: "go build -o {front} ./cmd/tare",
		FrontRun: "{front} serve -c {conf}", Set: set,
	}
	c, err := tools.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Conf = conf
	f.contenders[frontCache] = c
	f.contenders[nginxCache] = &contender.Contender{
		Spec: &contender.Spec{Name: nginxCache, Title: nginxCache, Protocol: contender.HTTP,
			Front: contender.Nginx, Set: set},
		Nginx: programs.Nginx(t), Conf: conf,
	}
}

func keepsResponses(server string) bool { return strings.HasSuffix(server, "-cache") }
