package events_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// TestMain lets the test binary be an application: "play ADDRESS".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		fmt.Fprintln(os.Stderr, play(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// play serves on a passed socket, or else on an address.
func play(address string) error {
	var l net.Listener
	var err error
	if os.Getenv("LISTEN_PID") == fmt.Sprint(os.Getpid()) {
		l, err = net.FileListener(os.NewFile(3, "passed"))
	} else {
		l, err = net.Listen("tcp", address)
	}
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("every") != "" {
			playStream(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "Hello World\n")
	}))
}

// project writes a project whose contender app is the test binary, and returns its folder.
func project(t *testing.T, experiment string) string {
	t.Helper()
	self := testkit.Value(os.Executable())(t)
	root := t.TempDir()
	for name, text := range map[string]string{
		"experiments/x/experiment.yaml": experiment,
		"contenders/app/contender.yaml": "title: app\nabout: an application\nprotocol: http\n" +
			"run: \"" + self + " play 127.0.0.1:{port}\"\n",
	} {
		file := filepath.Join(root, name)
		testkit.WriteFile(t, file, text)
	}
	return root
}

const head = `kind: events
title: A test
question: What happens?
length: 3s
timeout: 3s
clients:
  - {name: kept, method: GET, rate: 40}
  - {name: fresh, method: POST, rate: 40, fresh: true}
`

func weigh(t *testing.T, experiment string) *sample.Run {
	t.Helper()
	r, dir, err := lab.Weigh(context.Background(), lab.Options{
		Root: project(t, experiment), Experiment: "x", Logf: t.Logf,
	})
	testkit.Must(t, err)
	for i := range r.Events.Cases {
		if r.Events.Cases[i].Absent != "" {
			t.Fatal(r.Events.Cases[i].Absent)
		}
	}
	testkit.Check(t, report.New(r).WriteFiles(dir))
	return r
}

// Each request has one outcome. While the application is dead, connections are refused; while its
// socket is kept open, they wait.
func TestRestartsAreCounted(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	t.Parallel()
	r := weigh(t, head+`cases:
  - name: crash
    title: crash
    about: The application is killed and starts again
    contender: app
    plan: [{at: 500ms, do: kill}, {at: 2s, do: start}]
  - name: socket
    title: socket
    about: The same with a kept socket
    contender: app
    activated: true
    plan: [{at: 1s, do: restart}]
`)
	const sent = 240
	crash, socket := r.Events.Cases[0].Traffic, r.Events.Cases[1].Traffic
	sum := crash.Sum()
	if sum.Sent() != sent || sum.Outcomes[sample.Refused] == 0 || sum.Outcomes[sample.Response] == 0 {
		t.Errorf("crash: %+v", sum)
	}
	if len(r.Events.Cases[0].Marks) != 2 || r.Events.Cases[0].Marks[0].Text != "kill" {
		t.Errorf("marks: %+v", r.Events.Cases[0].Marks)
	}
	if sum = socket.Sum(); sum.Sent() != sent || sum.Outcomes[sample.Refused] != 0 {
		t.Errorf("socket: %+v", sum)
	}
	if _, most := r.Events.Cases[0].Peak(); most.Memory == 0 {
		t.Error("no memory was recorded")
	}
}

// A crowd keeps its connections open, whatever it does.
func TestCrowdsGather(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	for _, behavior := range []string{events.Headers, events.Uploads, events.Reads} {
		t.Run(behavior, func(t *testing.T) {
			t.Parallel()
			r := weigh(t, head+`crowd: {behavior: `+behavior+`, connections: 60, over: 500ms, every: 100ms, bytes: 1}
cases:
  - name: one
    title: one
    about: A crowd
    contender: app
    plan: [{at: 500ms, do: gather}, {at: 2500ms, do: leave}]
`)
			c := &r.Events.Cases[0]
			total := c.Traffic
			sum := total.Sum()
			_, most := c.Peak()
			last := c.Samples[len(c.Samples)-1]
			if most.Crowd < 20 || last.Crowd != 0 {
				t.Errorf("%+v, and at the end %+v", most, last)
			}
			if sum.Lost() > 0 {
				t.Errorf("%+v", sum)
			}
		})
	}
}

func TestInvalidExperimentsNameTheLine(t *testing.T) {
	one := func(plan string) string {
		return "cases: [{name: a, title: a, about: a, contender: app, plan: [" + plan + "]}]\n"
	}
	for _, test := range []struct{ text, want string }{
		{"kind: events\n", "title is missing"},
		{strings.Replace(head, "3s", "1h", 1) + one(""), "experiment.yaml:4: length"},
		{strings.Replace(head, "GET", "PUT", 1) + one(""), "experiment.yaml:7: clients"},
		{head + one("{at: 1s, do: explode}"), `do "explode": want one of`},
		{head + one("{at: 2s, do: kill}, {at: 1s, do: start}"), "ascending times"},
		{head + one("{at: 1s, do: gather}"), `crowd: behavior ""`},
		{head + "cases: [{name: a}]\n", "want name, title, about and contender"},
		{head + "crowds: 1\n", `unknown field "crowds"`},
		{strings.Replace(head, "rate: 40", "rate: .nan", 1) + one(""), "a rate up to"},
		{head + "nginx: none.conf\n" + one(""), "none.conf"},
		{head + strings.Replace(one(""), "contender", "replicas: 99, contender", 1), "replicas: want 0 to 16"},
		{head + "cases:\n- &a {name: a, title: a, about: a, contender: app}\n- *a\n", `duplicate "a"`},
		{head + "crowd: {behavior: reads, connections: 1}\n" + one("{at: 1s, do: gather}"), "want every"},
	} {
		text, want := test.text, test.want
		_, err := lab.ReadExperiment(filepath.Join(project(t, text), "experiments/x"))
		testkit.Error(t, err, want, text)
	}
}

// A name that no contender has is reported where the experiment has it, a case that the experiment
// lacks, and a role that a contender lacks before anything happens.
func TestUnknownNamesAreReported(t *testing.T) {
	text := head + "cases:\n  - {name: a, title: a, about: a, contender: nosuch}\n"
	_, err := lab.Prepare(context.Background(), lab.Options{Root: project(t, text), Experiment: "x"})
	testkit.Error(t, err, `nosuch/contender.yaml: no such contender`)
	text = head + "cases: [{name: a, title: a, about: a, contender: app, plan: [{at: 1s, do: kill, of: front}]}]\n"
	o := lab.Options{Root: project(t, text), Experiment: "x", Only: []string{"b"}}
	_, err = lab.Prepare(context.Background(), o)
	testkit.Error(t, err, `"b" is not in x; want a`)
	o.Only = nil
	r, _, err := lab.Weigh(context.Background(), o)
	if err != nil || !strings.Contains(r.Events.Cases[0].Absent, `no process "front"; want one of: application`) ||
		len(r.Events.Cases[0].Marks) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Of the project's own program a restart loses requests, and an upgrade none.
func TestUpgradesLoseNoRequest(t *testing.T) {
	testkit.NeedSlow(t)
	r, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: programs.Root(t), Experiment: "deploy", Only: []string{"kill", "upgrade"}, Out: t.TempDir(), Logf: t.Logf,
	})
	testkit.Must(t, err)
	for i, loses := range []bool{true, false} {
		total := r.Events.Cases[i].Traffic
		sum := total.Sum()
		if r.Events.Cases[i].Absent != "" || sum.Sent() != 2000 || sum.Lost() > 0 != loses {
			t.Errorf("%s: %+v, %s", r.Events.Cases[i].Title, sum, r.Events.Cases[i].Absent)
		}
	}
}
