package front_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// add_header adds the same fields as nginx, for all statuses.
func TestAddHeaderIsSameAsNginx(t *testing.T) {
	statuses := []int{200, 201, 202, 204, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 410, 500, 502,
		503}
	server := `add_header X-A "a $arg_v"; add_header X-A $arg_v; add_header x-always 1 always;
		add_header Cache-Control public; add_header Etag '"$arg_v"'; expires 1h;`
	for _, status := range statuses {
		server += fmt.Sprintf("location = /%d { return %[1]d /to; }\n", status)
	}
	theirs, us := besideNginx(t, "", server)
	for _, status := range statuses {
		for _, query := range []string{"", "?v=b"} {
			path := fmt.Sprintf("/%d%s", status, query)
			want, got := theirs.get(path), us.get(path)
			if got.status != want.status {
				t.Errorf("%s: status %d, want %d", path, got.status, want.status)
			}
			for _, name := range []string{"X-A", "X-Always", "Cache-Control", "Etag"} {
				if g, w := fmt.Sprintf("%q", got.header[name]), fmt.Sprintf("%q", want.header[name]); g != w {
					t.Errorf("%s: %s is %s, want %s", path, name, g, w)
				}
			}
			sameTime(t, path, got.header.Get("Expires"), want.header.Get("Expires"))
		}
	}
}

// sameTime compares times that were taken one after the other.
func sameTime(t *testing.T, what, got, want string) {
	t.Helper()
	g, gotErr := http.ParseTime(got)
	w, wantErr := http.ParseTime(want)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && got != want || gotErr == nil &&
		g.Sub(w).Abs() > 5*time.Second {
		t.Errorf("%s: Expires is %q, want %q", what, got, want)
	}
}

func TestExpiresIsSameAsNginx(t *testing.T) {
	all := []string{"1h", "0", "-1", "-1d", "+2h", "1d12h", `"1y 1M 1w"`, "90", "epoch", "max", "off", "@15h30m", "@0",
		"@24h", "modified 1d", "modified -1d", "$arg_e", "modified $arg_e"}
	lastModified := "Mon, 02 Nov 2026 10:00:00 GMT"
	app := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { dated(w, r, lastModified) }))
	server := ""
	for i, e := range all {
		server += fmt.Sprintf("location /%d/ { expires %s; proxy_pass http://unix:%s; }\n", i, e, app.socket)
	}
	theirs, us := besideNginx(t, "", server)
	for i, e := range all {
		for _, query := range []string{"e=1h", "e=epoch", "e=off", "e=", "e=@2h", "e=-5", "e=7x", "old=1&e=2d",
			"lm=1&e=1d", "lm=1"} {
			path := fmt.Sprintf("/%d/?%s", i, query)
			what := fmt.Sprintf("%v %s", e, path)
			want, got := theirs.get(path), us.get(path)
			sameTime(t, what, got.header.Get("Expires"), want.header.Get("Expires"))
			sameAge(t, what, got.header["Cache-Control"], want.header["Cache-Control"])
		}
	}
}

// dated responds with fields that expires replaces.
func dated(w http.ResponseWriter, r *http.Request, lastModified string) {
	if r.FormValue("old") != "" {
		w.Header().Set("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")
		w.Header().Add("Cache-Control", "private")
		w.Header().Add("Cache-Control", "no-store")
	}
	if r.FormValue("lm") != "" {
		w.Header().Set("Last-Modified", lastModified)
	}
	_, _ = w.Write([]byte("hello"))
}

// sameAge compares Cache-Control, with ages that differ by a few seconds.
func sameAge(t *testing.T, what string, got, want []string) {
	t.Helper()
	age := func(all []string) (int, bool) {
		if len(all) != 1 {
			return 0, false
		}
		text, ok := strings.CutPrefix(all[0], "max-age=")
		n, err := strconv.Atoi(text)
		return n, ok && err == nil
	}
	g, gotAge := age(got)
	w, wantAge := age(want)
	if gotAge && wantAge && max(g-w, w-g) <= 5 {
		return
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: Cache-Control is %q, want %q", what, got, want)
	}
}

// A client's data cannot end a field.
func TestAddHeaderCannotInject(t *testing.T) {
	us := serveHandler(t, newFront(t, oneHost(conf.Location{
		Path:  "/",
		Steps: []conf.Step{conf.Return{Status: 200, Text: "x"}},
		Settings: &conf.Settings{Header: []conf.AddHeader{{Name: "X-Uri", Value: "$uri"},
			{Name: "Content-Type", Value: "text/x"}}},
	})))
	if got := us.get("/a%0d%0aX-Evil:%201"); got.header["X-Evil"] != nil ||
		got.header.Get("X-Uri") != "/a X-Evil: 1" || got.status != 200 {
		t.Errorf("%d, %q", got.status, got.header)
	}
	for path, want := range map[string]string{
		"/%0d%0aX-Evil:%201": "/ X-Evil: 1", "/a%0aX-Evil:1": "/a X-Evil:1", "/a%0d%0a": "/a",
		"/a%0d%0a%20b%0a%09c": "/a b\tc", "/a%01b%7f%0bc": "/a b  c",
	} {
		if got := us.get(path); got.header["X-Evil"] != nil || got.header.Get("X-Uri") != want || got.status != 200 {
			t.Errorf("%s: %d, %q", path, got.status, got.header)
		}
	}
	if got := us.get("/fine"); got.header.Get("X-Uri") != "/fine" ||
		fmt.Sprint(got.header["Content-Type"]) != "[text/x]" {
		t.Errorf("%q", got.header)
	}
}
