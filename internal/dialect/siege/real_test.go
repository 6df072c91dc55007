package siege_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect/dialecttest"
	"github.com/tarehq/tare/internal/dialect/siege"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// installed is siege's default configuration without JSON and without a line for each transaction.
const installed = `
color = off
parser = true
limit = 255
protocol = HTTP/1.1
chunked = true
connection = close
concurrent = 25
delay = 0.0
accept-encoding = gzip, deflate
url-escaping = true
unique = true
`

// theirs runs the real siege, by default with the configuration that siege installs.
func theirs(t *testing.T, s *dialecttest.Server, rc string, args []string) dialecttest.Outcome {
	t.Helper()
	path, env := programs.Siege(t)
	if rc == "" {
		rc = file(t, installed)
	}
	return s.RunReal(t, testkit.Command(t, path, append([]string{"-R", rc}, args...)...), env)
}

// ours runs the same command line as "tare siege".
func ours(t *testing.T, s *dialecttest.Server, rc string, args []string) dialecttest.Outcome {
	t.Helper()
	if rc != "" {
		args = append([]string{"-R", rc}, args...)
	}
	return s.RunOurs(t, testkit.Value(siege.Parse(args))(t))
}

// shape returns what a report must have in common with siege's, whatever the times. Only siege
// prints failures of single sockets.
func shape(text string) string {
	text = regexp.MustCompile(`\[.*error.*\] socket: .*\n`).ReplaceAllString(text, "\n")
	text = strings.ReplaceAll(text, "\n\n", "\n")
	return dialecttest.Shape(text, regexp.MustCompile(`:[ \t]*[0-9.]+( |,|$)|^HTTP`))
}

// same returns the parts of the output that are the same in each run.
func same(o dialecttest.Outcome) []string {
	counts := regexp.MustCompile(`(?i)(transactions"?:|availability|data.transferred|preparing)`)
	return []string{shape(o.Stdout), shape(o.Stderr), dialecttest.Matching(o.Stdout, counts),
		dialecttest.Matching(o.Stderr, counts)}
}

// respond responds according to the path; on some paths, every tenth response differs.
func respond() http.Handler {
	body := strings.Repeat("x", 100_000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenth := dialecttest.Number(r)%10 == 0
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		switch {
		case r.URL.Path == "/missing" && tenth:
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/fault" && tenth:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/none" && tenth:
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, body)
	})
}

func TestReportsMatchRealSiege(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	data := file(t, "a=b&c=d\n")
	urls := file(t, "HERE="+s.URL+"\n# a comment\n$(HERE)/one\n"+s.URL+"two?a=b POST name=value\n"+
		s.URL+"three PUT <"+data+"\n"+s.URL+"four DELETE\n")
	kept := file(t, strings.ReplaceAll(installed, "= close", "= keep-alive"))
	old := file(t, strings.ReplaceAll(installed, "HTTP/1.1", "HTTP/1.0")+"user-agent = me\nheader = X-A: b\n")
	for _, c := range []struct{ rc, line string }{
		{"", "-c 5 -r 20 URL"},
		{"", "-r 4 URLpath/file?q=1"},
		{"", "-c 2 -r 20 URLmissing"},
		{"", "-c 2 -r 20 URLfault"},
		{"", "-c 2 -r 20 URLnone"},
		{"", "-c 3 -r 2 -v URLpath"},
		{"", "-c 3 -r 2 -q URL"},
		{"", "-c 3 -r 10 -j URL"},
		{"", "-b -d 3 -c 2 -r 3 -H X-A:~b -A me -T text/plain URL"},
		{"", "-c 1 -r 1 -H Host:~other.example URL"},
		{"", "-c 1 -r 1 -H Accept:~text/html URL"},
		{"", "-c 2 -r once -f " + urls},
		{"", "-c 2 -r 4 -i -f " + urls},
		{"", "-c 1 -r 4 -v -f " + urls},
		{kept, "-c 5 -r 20 URL"},
		{old, "-c 5 -r 20 URL"},
	} {
		t.Run(c.line, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(c.line, "URL", s.URL))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			th, our := theirs(t, s, c.rc, args), ours(t, s, c.rc, args)
			if strings.Contains(c.line, "-f") && !strings.Contains(c.line, "-c 1 ") { // which comes first is chance
				th.Sent, our.Sent = "", ""
			}
			dialecttest.Compare(t, th, our, same)
		})
	}
}

func TestPostMatchesRealSiege(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	for _, what := range []string{"POST a=b&c=d", "PUT <" + file(t, " 1,2\n"), "DELETE", "PATCH x", "OPTIONS"} {
		t.Run(what, func(t *testing.T) {
			args := []string{"-c", "1", "-r", "2", "-T", "text/csv", s.URL + "path " + what}
			dialecttest.Compare(t, theirs(t, s, "", args), ours(t, s, "", args), same)
		})
	}
}

func TestTimeLimitMatchesRealSiege(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	args := []string{"-c", "2", "-t", "1S", "-r", "3", s.URL}
	th, our := theirs(t, s, "", args), ours(t, s, "", args)
	// siege prints its message about the conflict in color.
	sentence := regexp.MustCompile(`(?s)^.*defaulting`)
	th.Stderr, our.Stderr = sentence.ReplaceAllString(th.Stderr, ""), sentence.ReplaceAllString(our.Stderr, "")
	wide := regexp.MustCompile(`<[0-9]+\.`)
	if wide.ReplaceAllString(shape(th.Stderr), "<.") != wide.ReplaceAllString(shape(our.Stderr), "<.") {
		t.Errorf("siege printed\n%s\nours printed\n%s", th.Stderr, our.Stderr)
	}
}

func TestLogMatchesRealSiege(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	logged := func(run func(*testing.T, *dialecttest.Server, string, []string) dialecttest.Outcome) string {
		name := file(t, "") + ".log"
		run(t, s, "", []string{"-c", "2", "-r", "5", "-q", "-m", "a mark", "-l" + name, s.URL})
		b := testkit.Value(os.ReadFile(name))(t)
		// If its clock has not ticked, siege divides by 0.
		text := regexp.MustCompile(`,( +)(inf|-?nan)`).ReplaceAllString(string(b), ",$1 0.00")
		return regexp.MustCompile(`[0-9.]+`).ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(text, " "), "N")
	}
	testkit.Equal(t, logged(ours), logged(theirs), "the log, and siege's")
}
