package fcgi_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// An nginxCase is a request of a client to nginx.
type nginxCase struct {
	name, method, target string
	fields               [][2]string
	body                 string
}

// nginxCases returns the cases for which testdata holds nginx's output.
func nginxCases() []nginxCase {
	many := nginxCase{name: "headers", method: "GET", target: "/articles/2026/11/?ref=home&page=2", fields: [][2]string{
		{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
			"Safari/537.36"},
		{"Cookie", "session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=yes; visited=1732147200; " +
			strings.Repeat("tracked=", 10)},
	}}
	for i := len(many.fields); i < 30; i++ {
		many.fields = append(many.fields, [2]string{fmt.Sprintf("X-Field-%02d", i),
			strings.Repeat(string(rune('a'+i%26)), 5*i)})
	}
	return []nginxCase{
		{name: "get", method: "GET", target: "/", fields: [][2]string{{"User-Agent", "curl/8.0"}, {"Accept", "*/*"}}},
		{name: "post", method: "POST", target: "/form",
			fields: [][2]string{{"Content-Type", "application/x-www-form-urlencoded"}},
			body:   "quantity=100&item=3047936"},
		many,
	}
}

// request returns the bytes that the client sends.
func (c *nginxCase) request() string {
	s := c.method + " " + c.target + " HTTP/1.1\r\nHost: www.example.org\r\n"
	for _, f := range c.fields {
		s += f[0] + ": " + f[1] + "\r\n"
	}
	if c.body != "" {
		s += fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
	}
	return s + "\r\n" + c.body
}

// check reports differences between what was received and what the client sent.
func (c *nginxCase) check(t *testing.T, x *received, keep bool) {
	t.Helper()
	path, query, _ := strings.Cut(c.target, "?")
	want := map[string]string{
		"REQUEST_METHOD": c.method, "REQUEST_URI": c.target, "SCRIPT_NAME": path, "QUERY_STRING": query,
		"SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "DOCUMENT_ROOT": "/srv/www",
		"GATEWAY_INTERFACE": "CGI/1.1",
		"CONTENT_LENGTH":    "", "CONTENT_TYPE": "", "HTTP_HOST": "www.example.org",
	}
	for _, f := range c.fields {
		want["HTTP_"+strings.ReplaceAll(strings.ToUpper(f[0]), "-", "_")] = f[1]
	}
	want["CONTENT_TYPE"] = want["HTTP_CONTENT_TYPE"]
	if c.body != "" {
		want["CONTENT_LENGTH"] = fmt.Sprint(len(c.body))
		want["HTTP_CONTENT_LENGTH"] = want["CONTENT_LENGTH"]
	}
	for name, value := range want {
		if got, ok := x.params[name]; !ok || got != value {
			t.Errorf("%s: %s is %q, %v, want %q", c.name, name, got, ok, value)
		}
	}
	for name := range x.params {
		if _, ok := want[name]; !ok && strings.HasPrefix(name, "HTTP_") {
			t.Errorf("%s: %s from nowhere", c.name, name)
		}
	}
	if x.id != 1 || x.keep != keep || x.pieces != 1 || string(x.body) != c.body {
		t.Errorf("%s: id %d, kept %v, list in %d pieces, body of %d bytes", c.name, x.id, x.keep, x.pieces, len(x.body))
	}
}

// received is a request as an application receives it.
type received struct {
	id     uint16
	keep   bool
	pieces int
	params map[string]string
	body   []byte
	raw    []byte // the bytes of its records
}

// A receiver reads a connection's requests as an application does, through the exported API.
type receiver struct {
	request fcgi.Request
	in      []byte
	next    int // offset in in
	open    *received
}

// receive processes a piece of the input and returns the requests that are complete.
func (r *receiver) receive(piece []byte) (all []*received, err error) {
	r.in = slices.Concat(r.in, piece)
	for {
		if r.open == nil {
			event, err := r.request.Next(r.in[r.next:], 1<<16)
			if err != nil || event == fcgi.More {
				return all, err
			}
			if event != fcgi.Ready {
				return all, fmt.Errorf("event %d", event)
			}
			if err := r.begin(); err != nil {
				return all, err
			}
		}
		ended, err := r.body()
		if err != nil || !ended {
			return all, err
		}
		r.open.raw = r.in[:r.next]
		all = append(all, r.open)
		r.request.Done()
		r.in, r.next, r.open = r.in[r.next:], 0, nil
	}
}

func (r *receiver) begin() error {
	q := &r.request
	r.open = &received{id: q.ID, keep: q.Keep, pieces: len(q.Params), params: make(map[string]string)}
	var list []byte
	for _, s := range q.Params {
		list = append(list, s.In(r.in)...)
	}
	r.next += q.Size
	for at := 0; at < len(list); {
		p, next, err := fcgi.NextPair(list, at)
		if err != nil {
			return err
		}
		name := string(p.Name.In(list))
		if _, twice := r.open.params[name]; twice {
			return fmt.Errorf("%s comes twice", name)
		}
		r.open.params[name] = string(p.Value.In(list))
		at = next
	}
	return nil
}

func (r *receiver) body() (ended bool, err error) {
	for !r.request.Empty {
		p, n, err := r.request.Records.Next(r.in[r.next:])
		if err != nil || p.Type == 0 {
			r.next += n
			return false, err
		}
		if p.Type != fcgi.Stdin || p.ID != r.open.id {
			return false, fmt.Errorf("record of type %d and id %d in the body", p.Type, p.ID)
		}
		r.next += n
		r.open.body = append(r.open.body, p.Content...)
		if p.Ends() {
			break
		}
	}
	return true, nil
}

// captured returns the file with nginx's output for a case.
func captured(c *nginxCase, keep bool) string {
	name := c.name
	if keep {
		name += "-keep"
	}
	return filepath.Join("testdata", name+".fcgi")
}

func TestCapturedNginxRequestsAreRead(t *testing.T) {
	for _, c := range nginxCases() {
		for _, keep := range []bool{false, true} {
			in, err := os.ReadFile(captured(&c, keep))
			if err != nil {
				t.Fatal(err)
			}
			testkit.EverySplit(t, in, func(pieces [][]byte) string {
				var r receiver
				var all []*received
				for _, p := range pieces {
					some, err := r.receive(p)
					if err != nil {
						return err.Error()
					}
					all = append(all, some...)
				}
				if len(all) != 1 || len(all[0].raw) != len(in) || r.request.Pending() {
					t.Fatalf("%s: %d requests", c.name, len(all))
				}
				c.check(t, all[0], keep)
				return fmt.Sprintf("%q %q", all[0].params, all[0].body)
			})
		}
	}
}

// response returns the application's response to a request.
func (x *received) response() string {
	return fmt.Sprintf("%s %s with %d bytes", x.params["REQUEST_METHOD"], x.params["REQUEST_URI"], len(x.body))
}

const logLine = "a line in the log"

// respond returns the whole response: a log line, and a page in two records.
func respond(x *received) []byte {
	page := x.response()
	head := fmt.Sprintf("Status: %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nX-Application: "+
		"tare\r\n\r\n", http.StatusCreated, http.StatusText(http.StatusCreated), len(page))
	b := fcgi.AppendStream(nil, fcgi.Stderr, x.id, []byte(logLine+"\n"))
	b = fcgi.AppendStreamEnd(b, fcgi.Stderr, x.id)
	b = fcgi.AppendStream(b, fcgi.Stdout, x.id, []byte(head))
	b = fcgi.AppendStream(b, fcgi.Stdout, x.id, []byte(page))
	b = fcgi.AppendStreamEnd(b, fcgi.Stdout, x.id)
	return fcgi.AppendEnd(b, x.id, fcgi.End{})
}
