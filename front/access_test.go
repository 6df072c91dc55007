package front_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/tarehq/tare/front/conf"
)

// forwarded returns the fields of each request of these tests, as a proxy would set them.
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
			if got, want := us.get("/", fields...), theirs.get("/", fields...); got.body != want.body {
				t.Errorf("%s %q: %q, want %q", directives, value, got.body, want.body)
			}
		}
		for _, lines := range [][]string{{"192.0.2.7", "10.1.2.3"}, {"192.0.2.7, garbage", "10.1.2.3"},
			{"garbage", "10.1.2.3"}, {"192.0.2.7", "garbage, 10.1.2.3"}, {"192.0.2.7", ""}} {
			fields := []string{"X-Forwarded-For", lines[0], "X-Forwarded-For", lines[1]}
			if got, want := us.get("/", fields...), theirs.get("/", fields...); got.body != want.body {
				t.Errorf("%s %q: %q, want %q", directives, lines, got.body, want.body)
			}
		}
	}
}

// Access is granted as by nginx: by address, by password, and by either.
func TestAccessIsGrantedAsByNginx(t *testing.T) {
	dir := t.TempDir()
	file, missing := filepath.Join(dir, "passwords"), filepath.Join(dir, "none")
	slow, err := bcrypt.GenerateFromPassword([]byte("slow"), bcrypt.MinCost)
	must(t, err)
	// The hashes are those of "openssl passwd -apr1" and htpasswd.
	lines := "# a comment\n" + `apr:$apr1$abcdefgh$cy3DSYyOwfhsyu7QOMQzd.:and a comment
sha:{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=
ssha:{SSHA}cyy1DSsp8htHWuMRIU8YoBan9yBzYWx0
plain:{PLAIN}p:la
slow:` + string(slow) + "\napr:{PLAIN}second\n:{PLAIN}noname\nbroken\n"
	must(t, os.WriteFile(file, []byte(lines), 0o644))
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
				for _, path := range []string{fmt.Sprintf("/%d", i), fmt.Sprintf("/%d?realm=off", i)} {
					r := []string{"X-Forwarded-For", from}
					if name, word, ok := strings.Cut(login, ":"); ok {
						req, _ := http.NewRequest("GET", "http://x", nil)
						req.SetBasicAuth(name, word)
						r = append(r, "Authorization", req.Header.Get("Authorization"))
					}
					got, want := us.get(path, r...), theirs.get(path, r...)
					if got.status == 200 && strings.Contains(directives, password) {
						let++
					}
					if got.status != want.status ||
						got.header.Get("Www-Authenticate") != want.header.Get("Www-Authenticate") {
						t.Errorf("%s, %s, %q: %d, %q, want %d, %q", directives, from, login, got.status,
							got.header.Get("Www-Authenticate"), want.status, want.header.Get("Www-Authenticate"))
					}
				}
			}
		}
	}
	if let < 200 { // for either path: by each kind of hash, and by address
		t.Errorf("only %d were let in", let)
	}
}

// A rule with an IPv4-mapped IPv6 network applies to IPv4 addresses. In nginx it matches nothing.
func TestMappedNetworksApplyToIPv4(t *testing.T) {
	for _, test := range []struct {
		denied string
		want   [3]int // for 10.1.2.3, 192.0.2.7 and 2001:db8::1
	}{
		{"::ffff:10.0.0.0/104", [3]int{403, 200, 200}},
		{"::ffff:0.0.0.0/96", [3]int{403, 403, 200}},
		{"::ffff:10.1.2.3/128", [3]int{403, 200, 200}},
		{"::/0", [3]int{200, 200, 403}},
	} {
		c := oneHost(conf.Location{Path: "/", Empty: true, Settings: &conf.Settings{
			RealIP: conf.RealIP{Unix: true, Header: "X-Forwarded-For"},
			Access: []conf.AccessRule{{Deny: true, Net: netip.MustParsePrefix(test.denied)}},
		}})
		us := serveHandler(t, newFront(t, c))
		for i, from := range []string{"10.1.2.3", "192.0.2.7", "2001:db8::1"} {
			if got := us.get("/", "X-Forwarded-For", from).status; got != test.want[i] {
				t.Errorf("deny %s: %s gets %d, want %d", test.denied, from, got, test.want[i])
			}
		}
	}
}
