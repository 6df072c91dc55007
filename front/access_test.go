package front_test

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// forwarded returns the field of each request of these tests, as a proxy would set it, or two fields
// with "|" between them.
func forwarded() []string {
	return []string{
		"192.0.2.1", "10.1.2.3", "10.1.2.3, 192.0.2.7", "192.0.2.7, 10.1.2.3", "192.0.2.7,10.1.2.3,10.9.9.9",
		"1.1.1.1, 192.0.2.7, 10.1.2.3",
		"", " ", ",", "garbage", "garbage, 10.1.2.3", "192.0.2.7, garbage", "192.0.2.7, garbage, 10.1.2.3",
		"10.1.2.3 10.1.2.4", "192.0.2.7:81", "192.0.2.7:0",
		"192.0.2.7:", "192.0.2.7:99999", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:443", "2001:db8::1, 10.1.2.3",
		"::ffff:10.1.2.3", "192.0.2.7, ::ffff:10.1.2.3",
		"10.1.2.3, ", "192.0.2.7 ,, 10.1.2.3 ,", "256.1.1.1", "1.2.3", "-", "unix:", "fe80::1%eth0", "[192.0.2.7]",
		"10.1.2.3/8", "0x7f.1", "127.1",
		strings.Repeat("10.1.2.3, ", 50) + "10.1.2.3", "192.0.2.7, " + strings.Repeat("10.1.2.3, ", 50) + "10.1.2.3",
		"\"192.0.2.7\"", "for=192.0.2.7", "192.0.2.7;10.1.2.3",
		"192.0.2.7|10.1.2.3", "192.0.2.7, garbage|10.1.2.3", "garbage|10.1.2.3", "192.0.2.7|garbage, 10.1.2.3", "192.0.2.7|",
	}
}

// The client's address from proxies' fields is the same as with nginx.
func TestRealIPIsNginxs(t *testing.T) {
	const both = "set_real_ip_from unix:; set_real_ip_from 10.0.0.0/8; "
	for _, directives := range []string{
		both + "real_ip_header X-Forwarded-For; real_ip_recursive on;", both + "real_ip_header X-Forwarded-For;",
		"set_real_ip_from unix:;", both + "real_ip_recursive on; real_ip_header X-Client;",
		"set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;", "",
	} {
		theirs, us := besideNginx(t, "", directives+
			`location / { return 200 "$remote_addr $remote_port $realip_remote_addr $realip_remote_port"; }`)
		for _, value := range forwarded() {
			fields := []string{"X-Forwarded-For", value, "X-Real-Ip", value, "X-Client", value}
			if first, second, ok := strings.Cut(value, "|"); ok {
				fields = []string{"X-Forwarded-For", first, "X-Forwarded-For", second}
			}
			testkit.Equal(t, us.get("/", fields...).body, theirs.get("/", fields...).body, directives, value)
		}
	}
}

// Access is granted as by nginx: by address, by password, and by either.
func TestAccessIsGrantedAsByNginx(t *testing.T) {
	dir := t.TempDir()
	file, missing := filepath.Join(dir, "passwords"), filepath.Join(dir, "none")
	slow := testkit.Value(bcrypt.GenerateFromPassword([]byte("slow"), bcrypt.MinCost))(t)
	// The hashes are those of "openssl passwd -apr1" and htpasswd.
	lines := "# a comment\n" + `apr:$apr1$abcdefgh$cy3DSYyOwfhsyu7QOMQzd.:and a comment
sha:{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=
ssha:{SSHA}cyy1DSsp8htHWuMRIU8YoBan9yBzYWx0
plain:{PLAIN}p:la
slow:` + string(slow) + "\napr:{PLAIN}second\n:{PLAIN}noname\nbroken\n"
	testkit.Must(t, os.WriteFile(file, []byte(lines), 0o644))
	password := `auth_basic "a realm"; auth_basic_user_file ` + file + ";"
	sets := []string{
		"deny 192.0.2.0/24; allow 10.0.0.0/8; deny all;", "allow 192.0.2.7; deny 192.0.2.0/24; allow 192.0.2.1;",
		"deny unix:; allow 2001:db8::/32; deny ::/0;", "deny ::/0;", "allow unix:; allow 192.0.2.7; deny all;",
		password, "satisfy any; allow 192.0.2.7; deny all; " + password, "satisfy any; deny 192.0.2.7; " + password,
		"deny 192.0.2.7; " + password, "auth_basic $arg_realm; auth_basic_user_file " + missing + ";",
		"auth_basic off; auth_basic_user_file " + missing + ";",
	}
	server := "set_real_ip_from unix:; real_ip_header X-Forwarded-For;\n"
	for i, directives := range sets {
		server += fmt.Sprintf("location /%d { empty_gif; %s }\n", i, directives)
	}
	theirs, us := besideNginx(t, "", server)
	let := 0
	for i, directives := range sets {
		for _, from := range []string{"192.0.2.7", "192.0.2.1", "10.1.2.3", "2001:db8::1", "::ffff:10.1.2.3",
			"2001:db9::1", "nobody"} {
			for _, login := range []string{"", "apr:hello", "apr:Hello", "apr:second", "sha:hello", "sha:x", "ssha:x",
				"plain:p", "plain:p:la", "slow:slow", "slow:no", "no:one", ":noname", "broken:", "#a:b"} {
				for _, query := range []string{"", "?realm=off"} {
					if query != "" && !strings.Contains(directives, "$arg_realm") {
						continue
					}
					r := []string{"X-Forwarded-For", from}
					if name, word, ok := strings.Cut(login, ":"); ok {
						req, _ := http.NewRequest("GET", "http://x", nil)
						req.SetBasicAuth(name, word)
						r = append(r, "Authorization", req.Header.Get("Authorization"))
					}
					path := fmt.Sprintf("/%d%s", i, query)
					got, want := us.get(path, r...), theirs.get(path, r...)
					if got.status == 200 && strings.Contains(directives, password) {
						let++
					}
					got.is(t, want.status)
					testkit.Equal(t, got.header["Www-Authenticate"], want.header["Www-Authenticate"],
						directives, from, login)
				}
			}
		}
	}
	testkit.Between(t, let, 100, 500, "requests that were let in, by each kind of hash, and by address")
}

// A rule with an IPv4-mapped IPv6 network applies to IPv4 addresses. In nginx it matches nothing.
func TestMappedNetworksApplyToIPv4(t *testing.T) {
	for denied, want := range map[string][3]int{ // for 10.1.2.3, 192.0.2.7 and 2001:db8::1
		"::ffff:10.0.0.0/104": {403, 200, 200}, "::ffff:0.0.0.0/96": {403, 403, 200},
		"::ffff:10.1.2.3/128": {403, 200, 200}, "::/0": {200, 200, 403},
	} {
		us := serveConf(t, "", "set_real_ip_from unix:; real_ip_header X-Forwarded-For; location / { empty_gif; deny "+
			denied+"; }")
		for i, from := range []string{"10.1.2.3", "192.0.2.7", "2001:db8::1"} {
			testkit.Equal(t, us.get("/", "X-Forwarded-For", from).status, want[i], "deny", denied+":", from)
		}
	}
}

// authConf has a location whose subrequest the handler "judge" responds to, or another server.
func authConf(to, more string) string {
	return "location = /auth { internal; proxy_pass http://" + to + "; " + more + ` }
		location / { auth_request /auth; proxy_pass http://app; }`
}

// Neither a panic of the handler nor the client's departure grants access, and each logs one line.
func TestFailedAuthRequestDeniesAccess(t *testing.T) {
	entered := make(chan struct{}, 1)
	wait := func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	}
	for name, to := range map[string]string{"499": serve(t, wait), "500": "judge"} {
		file := t.TempDir() + "/log"
		a := serveBound(t, `log_format f "$uri $status";`, "access_log "+file+" f; "+authConf(to, ""), handlers{
			"app": func(http.ResponseWriter, *http.Request) { t.Error("access was granted") },
			"judge": func(w http.ResponseWriter, r *http.Request) {
				wait(w, r)
				panic(http.ErrAbortHandler)
			}})
		ctx, leave := context.WithCancel(t.Context())
		r := testkit.Value(http.NewRequestWithContext(ctx, http.MethodGet, "http://x/gone", nil))(t)
		go func() {
			<-entered
			leave()
		}()
		testkit.Fails(a.client.Do(r))(t, "context canceled")
		testkit.Equal(t, awaitLines(t, file, 1), []string{"/gone " + name})
	}
}

// Places in the limits of the auth location are released with the request.
func TestAuthRequestLimitsAreReleased(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	a := serveBound(t, "limit_conn_zone $host zone=z:1m;", authConf("judge", "limit_conn z 1;"), handlers{
		"judge": func(http.ResponseWriter, *http.Request) {},
		"app": func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				close(entered)
				<-leave
			}
		}})
	var one sync.WaitGroup
	one.Go(func() { a.get("/wait") })
	<-entered
	a.get("/").is(t, 500) // beside another
	close(leave)
	one.Wait()
	a.get("/").is(t, 200)
}

// AuthRequest works over HTTP/2, also if the response is observed.
func TestAuthRequestWorksOverHTTP2(t *testing.T) {
	judge := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(testkit.Value(strconv.Atoi(r.Header.Get("X-Want")))(t))
	})
	for _, settings := range []string{"", "send_timeout 1m; "} {
		s := serveHTTP2(t, confFront(t, "", settings+authConf(judge, ""), handlers{"app": echo}))
		for want, status := range map[string]int{"200": 200, "401": 401, "500": 500} {
			got := clientOf(t, s).do("POST", s.URL, strings.NewReader("a body"), "X-Want", want)
			got.is(t, status)
			testkit.Equal(t, got.proto, "HTTP/2.0")
			testkit.Equal(t, strings.Contains(got.body, `"a body"`), status == 200, want)
		}
	}
}

// Starting logs which users cannot log in.
func TestUnsupportedHashesAreLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	testkit.WriteFile(t, name, "b:{PLAIN}x\na:$7$x$y\nc:\n")
	var output strings.Builder
	confFront(t, "", "auth_basic r; auth_basic_user_file "+name+";", nil, front.LogErrors(log.New(&output, "", 0)))
	testkit.Contains(t, output.String(), "front: [warn] auth_basic_user_file: "+
		name+`: line 2: user "a" cannot log in: `)
}

// Other cases are in the corpus, beside nginx, except times that are near.
func TestSecureLinkIsChecked(t *testing.T) {
	h := newFront(t, parseConf(t, "", `secure_link $arg_md5,$arg_expires; secure_link_md5 "$secure_link_expires secret";
		location / { return 200 "[$secure_link] [$secure_link_expires]"; }`))
	for want, until := range map[string]int64{"[1] [%d]": time.Now().Add(time.Hour).Unix(),
		"[0] [%d]": time.Now().Add(-time.Second).Unix() - 1} {
		sum := md5.Sum(fmt.Appendf(nil, "%d secret", until))
		target := fmt.Sprintf("/?md5=%s&expires=%d", base64.RawURLEncoding.EncodeToString(sum[:]), until)
		testkit.Equal(t, get(t, h, target).body, fmt.Sprintf(want, until), target)
	}
}

// Patterns of a program may have lookahead, and are limited. Other cases are in the corpus, beside
// nginx.
func TestReferersOfAProgram(t *testing.T) {
	front := func(r *conf.Referers) http.Handler {
		return newFront(t, oneHost(conf.Location{Path: "/", Settings: &conf.Settings{Referers: r},
			Steps: []conf.Step{conf.Return{Status: 200, Text: "[$invalid_referer]"}}}))
	}
	h := front(&conf.Referers{Names: []string{"A.test/x", `~^b\.(?=test)`},
		Patterns: []string{`^c\.test/(?<unknown>.)`, `^d\.test/` + costly() + "$"}})
	for referer, want := range map[string]string{
		"http://a.test/xy": "[]", "http://a.test/y": "[1]", "http://b.test/": "[]", "http://b.other/": "[1]",
		"http://c.test/z": "[]", "": "[1]",
	} {
		get(t, h, "/", "Referer", referer).is(t, 200, want)
	}
	get(t, h, "/", "Referer", "http://d.test/"+many()).is(t, 500) // it exceeds the limits
	get(t, front(nil), "/", "Referer", "http://a.test/").is(t, 200, "[]")
}

// The address of the PROXY protocol is used only with real_ip_header proxy_protocol and a trusted
// proxy, by TCP or unix socket.
func TestProxyProtocolRequiresTrust(t *testing.T) {
	settings := conf.Settings{
		RealIP: conf.RealIP{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Unix: true,
			Header: "proxy_protocol"},
		Access: []conf.AccessRule{{Net: netip.MustParsePrefix("192.0.2.0/24")}, {Unix: true, Deny: true},
			{Deny: true}},
	}
	others := settings
	others.RealIP = conf.RealIP{}
	h := newFront(t, oneHost(conf.Location{Path: "/trusting", Settings: &settings, Empty: true},
		conf.Location{Path: "/", Settings: &others, Empty: true}))
	value, without := netip.MustParseAddrPort("192.0.2.1:1000"), netip.AddrPort{}
	for _, test := range []struct {
		path, peer string
		header     *netip.AddrPort // nil: the connection has no header
		status     int
	}{
		{"/trusting", "10.0.0.1:1", &value, 200}, {"/trusting", "@", &value, 200},
		{"/trusting", "10.0.0.1:1", &without, 403},
		{"/trusting", "10.0.0.1:1", nil, 403}, {"/trusting", "@", nil, 403},
		{"/trusting", "@", &without, 403},
		{"/trusting", "198.51.100.1:1", &value, 403}, {"/trusting", "192.0.2.9:1", nil, 200},
		{"/", "10.0.0.1:1", &value, 403}, {"/", "@", &value, 403}, {"/", "192.0.2.9:1", &value, 200},
	} {
		r := httptest.NewRequest("GET", test.path, nil)
		if r.RemoteAddr = test.peer; test.header != nil {
			r = r.WithContext(front.WithProxyHeader(r.Context(), func() (source, destination netip.AddrPort) {
				return *test.header, netip.AddrPort{}
			}))
		}
		testkit.Equal(t, responseTo(h, r).status, test.status, test.path, "from", test.peer, test.header)
	}
}
