package testkit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leavesEnv makes this test binary run tests that leave a program running.
const leavesEnv = "TARE_TESTKIT_LEAVES"

func TestMain(m *testing.M) { os.Exit(Tests{m}.Run()) }

// TestLeavesAProgram is run in another process by the test below.
func TestLeavesAProgram(t *testing.T) {
	how := os.Getenv(leavesEnv)
	if how == "" {
		t.Skip("another test runs it")
	}
	c := exec.Command("sleep", "3600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	Must(t, c.Start())
	fmt.Printf("pid %s=%s\n", RunEnv, os.Getenv(RunEnv))
	if how == "hangs" {
		time.Sleep(time.Hour)
	}
}

// A program that outlives its test fails the run and is killed. If the test binary is killed, so
// are its programs.
func TestProgramsThatOutliveTestsAreKilled(t *testing.T) {
	for _, how := range []string{"ends", "hangs"} {
		c := exec.Command(os.Args[0], "-test.run=^TestLeavesAProgram$")
		c.Env = append(os.Environ(), leavesEnv+"="+how)
		var complaint strings.Builder
		c.Stderr = &complaint
		out := Value(c.StdoutPipe())(t)
		p := Start(t, c)
		line, err := bufio.NewReader(out).ReadString('\n')
		mark, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
		if err != nil || !ok {
			t.Fatalf("%q, %v", line, err)
		}
		if how == "hangs" {
			_ = c.Process.Kill()
		}
		Error(t, p.Wait(), "", how)
		if how == "ends" {
			Contains(t, complaint.String(), "sleep 3600")
		}
		WaitFor(t, how+": the end of the program", func() bool { return len(processesWith(mark)) == 0 })
	}
}

// The rest of a process group is killed when its leader exits.
func TestProcessGroupEndsWithItsLeader(t *testing.T) {
	mark := fmt.Sprintf("TARE_TESTKIT_GROUP=%d", os.Getpid())
	c := exec.Command("sh", "-c", "sleep 3600 & exit 3")
	c.Env = append(os.Environ(), mark)
	if err := Start(t, c).Wait(); err == nil || c.ProcessState.ExitCode() != 3 {
		t.Error(err)
	}
	WaitFor(t, "the end of the other process", func() bool { return len(processesWith(mark)) == 0 })
}
