package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Job is a Job of Kubernetes whose pods are agents. It uses the user's kubectl, as SSH uses ssh.
type Job struct {
	spec Kubernetes
	Name string
	pods []string
}

const (
	// podsTimeout limits how long pods may take to run. A cluster may have to add nodes and to pull
	// the image.
	podsTimeout   = 10 * time.Minute
	podsEvery     = 500 * time.Millisecond // interval between checks of the pods
	deleteTimeout = time.Minute            // limits how long deleting a Job may take
)

// NewJobName returns a new name for a Job.
func NewJobName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "tare-load-" + hex.EncodeToString(b[:])
}

// StartJob creates the Job and waits until its pods run. If that fails, StartJob deletes the Job;
// otherwise the caller does. note, which may be nil, receives what the pods wait for.
func StartJob(ctx context.Context, k Kubernetes, note func(string)) (*Job, error) {
	j := &Job{spec: k, Name: NewJobName()}
	manifest, err := k.Manifest(j.Name)
	if err != nil {
		return nil, err
	}
	if _, err := j.kubectl(ctx, manifest, "create", "-f", "-"); err != nil {
		err = fmt.Errorf("fleet: cannot create the job: %w", err)
		if ctx.Err() != nil { // an interrupted kubectl may have created it
			err = errors.Join(err, j.Delete())
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	if err := j.awaitPods(ctx, note); err != nil {
		return nil, errors.Join(fmt.Errorf("fleet: job %s: %w", j.Name, err), j.Delete())
	}
	return j, nil
}

// Hosts returns the pods.
func (j *Job) Hosts() (hosts []Host) {
	for _, pod := range j.pods {
		hosts = append(hosts, Host{
			Name: pod,
			Command: func(context.Context) (*exec.Cmd, error) {
				return j.command("attach", "--stdin", "--quiet", "--container", containerName, "pod/"+pod), nil
			},
			Explain: func(ctx context.Context) string { return j.explain(ctx, pod) },
		})
	}
	return hosts
}

// Delete deletes the Job and its pods, and waits until they are gone.
func (j *Job) Delete() error {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	_, err := j.kubectl(ctx, nil, "delete", "job", j.Name, "--cascade=foreground", "--ignore-not-found", "--wait")
	if err != nil {
		return &LeftJobError{Command: strings.Join(j.command("delete", "job", j.Name).Args, " "), Err: err}
	}
	return nil
}

// LeftJobError is the error of a Job that could not be deleted.
type LeftJobError struct {
	Command string // deletes the Job
	Err     error
}

func (e *LeftJobError) Error() string {
	return fmt.Sprintf("fleet: cannot delete the job: %v (delete it with %q)", e.Err, e.Command)
}

func (e *LeftJobError) Unwrap() error { return e.Err }

// command returns a kubectl command. An interrupt from the terminal does not reach it.
func (j *Job) command(args ...string) *exec.Cmd {
	var all []string
	if j.spec.Context != "" {
		all = append(all, "--context", j.spec.Context)
	}
	if j.spec.Namespace != "" {
		all = append(all, "--namespace", j.spec.Namespace)
	}
	c := exec.Command("kubectl", append(all, args...)...)
	separate(c)
	return c
}

func (j *Job) kubectl(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	c, out := j.command(args...), new(bytes.Buffer)
	c.Stdin, c.Stdout = bytes.NewReader(in), out
	err := runCommand(ctx, c)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("kubectl is not installed, or not in PATH")
	case err != nil && strings.Contains(err.Error(), "forbidden"):
		return nil, fmt.Errorf("not permitted: %w (want create and delete of jobs, get and list of pods, and create of pods/attach)",
			err)
	}
	return out.Bytes(), err
}

// pod is the part of a pod's state that is read.
type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		Conditions []struct {
			Type, Status, Reason, Message string
		} `json:"conditions"`
		Containers []struct {
			State struct {
				Running *struct{} `json:"running"`
				Waiting *struct {
					Reason, Message string
				} `json:"waiting"`
				Terminated *struct {
					Reason, Message string
					ExitCode        int
				} `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

func (p *pod) isRunning() bool {
	return p.Status.Phase == "Running" && len(p.Status.Containers) > 0 && p.Status.Containers[0].State.Running != nil
}

// failure returns why the pod will never run, or nothing if it may.
func (p *pod) failure() string {
	if s := p.Status; s.Reason != "" { // such as Evicted
		return strings.TrimRight(s.Reason+": "+s.Message, ": ")
	}
	for _, c := range p.Status.Containers {
		if t := c.State.Terminated; t != nil {
			return strings.TrimRight(fmt.Sprintf("%s with exit code %d: %s", t.Reason, t.ExitCode, t.Message), ": ")
		}
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
				"CreateContainerError", "RunContainerError", "CrashLoopBackOff":
				return strings.TrimRight(w.Reason+": "+w.Message, ": ")
			}
		}
	}
	if p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" {
		return p.Status.Phase
	}
	return ""
}

func (p *pod) waitsFor() string {
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w != nil {
			return strings.TrimRight(w.Reason+": "+w.Message, ": ")
		}
	}
	return "pending"
}

func (j *Job) awaitPods(ctx context.Context, note func(string)) error {
	reported := ""
	for {
		out, err := j.kubectl(ctx, nil, "get", "pods", "--selector", jobLabel+"="+j.Name, "--output", "json")
		var list struct{ Items []pod }
		if err == nil {
			err = json.Unmarshal(out, &list)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		waits := fmt.Sprintf("%d of %d pods exist", len(list.Items), j.spec.Agents)
		j.pods = j.pods[:0]
		for i := range list.Items {
			p := &list.Items[i]
			if p.isRunning() {
				j.pods = append(j.pods, p.Metadata.Name)
				continue
			}
			if why := p.failure(); why != "" {
				return fmt.Errorf("pod %s, image %s: %s", p.Metadata.Name, j.spec.Image, why)
			}
			waits = fmt.Sprintf("pod %s: %s", p.Metadata.Name, p.waitsFor())
		}
		if len(j.pods) == j.spec.Agents {
			return nil
		}
		if note != nil && waits != reported && len(list.Items) == j.spec.Agents {
			note("waiting for " + waits)
		}
		reported = cmp.Or(waits, reported)
		select {
		case <-time.After(podsEvery):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%d of %d pods run after %v; %s", len(j.pods), j.spec.Agents, podsTimeout, reported)
			}
			return ctx.Err()
		}
	}
}

// explain returns what Kubernetes reports about a pod that was lost. Its reports are a little late.
func (j *Job) explain(ctx context.Context, name string) string {
	for {
		if why, isKnown := j.look(ctx, name); isKnown || ctx.Err() != nil {
			return why
		}
		select {
		case <-time.After(podsEvery):
		case <-ctx.Done():
		}
	}
}

// look returns why a pod has ended, and whether that is known, or can never be.
func (j *Job) look(ctx context.Context, name string) (why string, isKnown bool) {
	out, err := j.kubectl(ctx, nil, "get", "pod", name, "--output", "json", "--ignore-not-found")
	if err != nil {
		return "", true
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return "its pod was deleted", true
	}
	var p pod
	if json.Unmarshal(out, &p) != nil {
		return "", true
	}
	why = p.failure()
	return why, why != ""
}
