package contender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
)

const (
	stopGrace     = 3 * time.Second      // time between SIGTERM and SIGKILL
	pollEvery     = 5 * time.Millisecond // pause between two probes of a contender that starts
	longestSocket = 107                  // most bytes of a unix socket's path on Linux
)

// Setting determines how a contender runs.
type Setting struct {
	Cores   int   // GOMAXPROCS of the application, or the number of its processes
	Workers int   // of nginx; 0 is as many as Cores
	CPUs    []int // processors of all its processes; none means all
	Host    string
	Conf    *template.Template // the experiment's nginx.conf; nil without a front
	Env     []string           // more variables for the application

	// Replicas is the number of processes of the application, each with a port of its own; 0 is one.
	Replicas int
	// Activated passes a listening TCP socket to the application, as systemd does. The socket stays
	// open while the application is replaced.
	Activated bool
	Files     int  // limits the open files of each process; 0 is the limit of this process
	Replaced  bool // starts nginx so that it can be replaced
}

// replaced is a shell script that starts nginx, and passes signals on. nginx ignores SIGUSR2 until
// the process that started it has ended. SIGQUIT is for the process that another one has replaced.
const replaced = `("$@" & until [ -s nginx.pid ]; do sleep 0.01; done)
trap 'kill -HUP "$(cat nginx.pid)"' HUP
trap 'kill -USR2 "$(cat nginx.pid)"' USR2
trap 'kill -QUIT "$(cat nginx.pid.oldbin)"' QUIT
trap 'exit 0' TERM
sleep infinity &
while :; do wait $!; done`

// Running is a started contender.
type Running struct {
	*Contender
	Address string            // for clients: host:port, or the path of a unix socket
	Files   map[string][]byte // configuration files that were written for it, by name
	Left    []proc.Process    // processes in other groups that survived SIGTERM; valid once stopped
	Stayed  bool              // it did not end on SIGTERM, and was killed; valid once stopped

	stage *Stage
	ports Claims
	dir   string
	mark  string // in the environment of all its processes
	parts []*part
	dead  chan struct{} // closed when a part ends by itself
	once  sync.Once

	site      string // the folder that is served; "" if none
	cert      certFiles
	upstreams []string // the application's addresses, as in nginx.conf
}

// Start starts a contender and waits until it responds. probe sends a request to an address and
// returns nil if there was a response. If Start fails, the error has the contender's output, and
// its processes are ended.
func (s *Stage) Start(ctx context.Context, c *Contender, set Setting,
	probe func(ctx context.Context, address string) error) (*Running, error) {
	dir := filepath.Join(s.dir, strconv.FormatInt(s.runs.Add(1), 10)+"-"+c.Name)
	err := os.Mkdir(dir, 0o755) // nginx workers of another user read it
	if err != nil {
		return nil, err
	}
	r := &Running{
		Contender: c, stage: s, dir: dir, mark: "TARE_RUN=" + filepath.Base(s.dir) + "-" + filepath.Base(dir),
		Files: make(map[string][]byte), dead: make(chan struct{}),
	}
	err = r.launch(set)
	if err == nil {
		err = r.await(ctx, probe)
	}
	if err != nil {
		printed := r.Printed()
		stopErr := r.Stop()
		return nil, errors.Join(fmt.Errorf("%w%s%s", err, r.leftText(), printed), stopErr)
	}
	return r, nil
}

func (r *Running) launch(set Setting) error {
	if r.Cores == AllCores {
		set.Cores, set.Workers, set.CPUs = len(r.stage.cpus), 0, nil
	}
	if r.Site != "" {
		var err error
		if r.site, err = r.stage.site(filepath.Join(r.Dir, r.Site)); err != nil {
			return err
		}
	}
	if r.TLS {
		var err error
		if r.cert, err = r.stage.certificate(); err != nil {
			return err
		}
	}
	if len(r.words()) > 0 {
		for replica := range max(1, set.Replicas) {
			if err := r.launchApplication(set, replica); err != nil {
				return err
			}
		}
	}
	if r.Front == "" {
		return nil
	}
	if set.Replicas > 1 {
		if err := r.awaitReplicas(); err != nil {
			return err
		}
	}
	port, err := r.ports.Claim()
	if err != nil {
		return err
	}
	r.Address = net.JoinHostPort(r.stage.host, strconv.Itoa(port))
	return r.addFront(set, port)
}

// launchApplication chooses the address of one of the application's replicas and starts it.
func (r *Running) launchApplication(set Setting, replica int) error {
	ports, err := r.freePorts(set.Cores)
	if err != nil {
		return err
	}
	host := loopbackHost
	if r.Front == "" {
		host = r.stage.host
	}
	role := RoleApplication
	if replica > 0 {
		role += " " + strconv.Itoa(replica+1)
	}
	port, socket := ports[0], filepath.Join(r.dir, fileName(role)+".sock")
	var upstreams []string
	for _, p := range ports {
		upstreams = append(upstreams, net.JoinHostPort(host, p))
	}
	address := upstreams[0]
	place := address
	if r.Network == Unix || r.Network == "" && r.hasPlaceholder("{socket}") {
		if len(socket) > longestSocket {
			return fmt.Errorf("the path of its socket, %q, is longer than %d bytes; set TMPDIR to a folder with a shorter path", socket, longestSocket)
		}
		place, upstreams = socket, []string{"unix:" + socket}
	}
	r.Address = cmp.Or(r.Address, place)
	r.upstreams = append(r.upstreams, upstreams...)
	cores := strconv.Itoa(set.Cores)
	values := []string{
		"{dir}", r.dir, "{addr}", address, "{port}", port, "{ports}", strings.Join(ports, ","), "{socket}", socket,
		"{cores}", cores, "{site}", r.site, "{cert}", r.cert.certFile, "{key}", r.cert.keyFile,
	}
	if len(r.Command) == 0 { // the project's contenders name the loopback address
		values = append(values, loopbackHost, host)
	}
	p := &part{
		role: role, folder: cmp.Or(r.Folder, r.site), words: r.fill(r.words(), values...), cpus: set.CPUs,
		env: slices.Concat([]string{"GOMAXPROCS=" + cores}, set.Env, r.env, r.fill(r.Env, values...)), files: set.Files,
	}
	if set.Activated {
		if p.socket, err = openSocket(address); err != nil {
			return err
		}
	}
	return r.add(p)
}

// freePorts returns ports for the application: one for each core if it uses {ports}, otherwise one.
func (r *Running) freePorts(cores int) ([]string, error) {
	n := 1
	if r.hasPlaceholder("{ports}") {
		n = cores
	}
	ports := make([]string, n)
	for i := range ports {
		port, err := r.ports.Claim()
		if err != nil {
			return nil, err
		}
		ports[i] = strconv.Itoa(port)
	}
	return ports, nil
}

// loopbackHost is where contenders listen, unless the load comes from another machine.
const loopbackHost = "127.0.0.1"

// Place returns the protocol and the address of the contender for clients.
func (r *Running) Place() Place { return r.At(r.Address) }

// addFront starts the front with its nginx.conf. A front without application or site has its
// handler in its own process. Its configuration still needs an upstream, which gets an unused port.
func (r *Running) addFront(set Setting, port int) error {
	conf := NginxConf{
		Workers: cmp.Or(set.Workers, set.Cores), Dir: r.dir, Site: r.site, Etc: filepath.Join(r.stage.dir, "etc"),
		Port: port, Listen: r.Address, ListenHost: r.stage.host, Host: set.Host, Protocol: r.Protocol,
		Upstreams: r.upstreams, Set: r.Set,
		Cert: r.cert.certFile, Key: r.cert.keyFile,
	}
	if len(conf.Upstreams) == 0 && r.Site == "" {
		unused, err := r.ports.Claim()
		if err != nil {
			return err
		}
		conf.Upstreams = []string{net.JoinHostPort(loopbackHost, strconv.Itoa(unused))}
	}
	conf.fit()
	file := r.confFile()
	text, err := conf.render(cmp.Or(r.Conf, set.Conf), file)
	if err != nil {
		return err
	}
	r.Files[filepath.Base(file)] = text
	if r.Front != Nginx {
		words := r.fill(strings.Fields(r.FrontRun), "{conf}", file, "{dir}", r.dir)
		return r.add(&part{
			role: RoleFront, words: words, env: slices.Concat(set.Env, r.env), cpus: set.CPUs, files: set.Files,
		})
	}
	words := []string{r.Nginx.Bin, "-e", "stderr", "-p", r.dir, "-c", file, "-g", "daemon off;"}
	if set.Replaced {
		words = append([]string{"/bin/sh", "-c", replaced, "sh"}, words...)
	}
	return r.add(&part{role: RoleNginx, words: words, env: r.Nginx.Env, cpus: set.CPUs, files: set.Files})
}

func (r *Running) confFile() string {
	return filepath.Join(r.dir, filepath.Base(cmp.Or(r.Config, "nginx.conf")))
}

func (r *Running) add(p *part) error {
	log, err := os.Create(filepath.Join(r.dir, fileName(p.role)+".log"))
	if err != nil {
		return errors.Join(err, p.closeSocket())
	}
	p.log = log
	p.folder = cmp.Or(p.folder, r.dir)
	p.env = slices.Concat(os.Environ(), p.env, []string{r.mark})
	p.dropPages()
	if err := r.start(p); err != nil {
		return errors.Join(err, log.Close(), p.closeSocket())
	}
	r.parts = append(r.parts, p)
	return nil
}

// await waits until the contender responds, and checks that the response is this contender's.
func (r *Running) await(ctx context.Context, probe func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(r.Ready.Within), errNotReady)
	defer cancel()
	deadline, _ := ctx.Deadline()
	var last error
	for {
		err := probe(ctx, r.Address)
		if err == nil {
			if err = r.assertOwner(); err == nil {
				return nil
			}
			select {
			case <-r.dead: // it left a process behind, which responded
				return r.deadPart()
			default:
				return err
			}
		}
		// An error at the deadline shows only that time is up: the one before is more useful. The
		// probe's own timer may fire slightly before the context's.
		if last == nil || time.Now().Before(deadline) && ctx.Err() == nil {
			last = err
		}
		select {
		case <-r.dead:
			return r.deadPart()
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errNotReady) {
				return fmt.Errorf("no response after %v: %w%s", time.Duration(r.Ready.Within), last, r.elsewhere())
			}
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

var errNotReady = errors.New("not ready in time")

// assertOwner returns an error unless a process of the contender listens at its port: a process of
// another program may have responded. A unix socket needs no such check: it is in the contender's own
// folder.
func (r *Running) assertOwner() error {
	if r.Place().Network() == "unix" {
		return nil
	}
	_, port, _ := strings.Cut(r.Address, ":")
	holder := func(among []proc.Process, err error) (*proc.Process, error) {
		if err != nil {
			return nil, err
		}
		places, err := proc.Listening(among)
		for at, p := range places {
			if strings.HasSuffix(at, ":"+port) {
				return &p, nil
			}
		}
		return nil, err
	}
	if own, err := holder(r.Processes()); own != nil || err != nil {
		return err
	}
	other, err := holder(proc.All())
	if other != nil {
		return fmt.Errorf("port %s is held by process %d (%s), which was not started here", port, other.PID, other.Name)
	}
	return cmp.Or(err, fmt.Errorf("port %s is held by a process that this one cannot see (another user's, or in another PID namespace)", port))
}

// Dead returns a channel that is closed when a process of the contender ends by itself.
func (r *Running) Dead() <-chan struct{} { return r.dead }

// WhyDead returns an error that names the process that ended by itself, with its last output.
func (r *Running) WhyDead() error { return fmt.Errorf("%w%s", r.deadPart(), r.Printed()) }

func (r *Running) deadPart() error {
	for _, p := range r.parts {
		if p.hasEnded() {
			how := "exit status 0"
			if p.exitErr != nil {
				how = p.exitErr.Error()
			}
			return fmt.Errorf("its %s ended by itself (%s)", p.role, how)
		}
	}
	return errors.New("none of its processes ended")
}

// Processes returns all living processes of the contender.
func (r *Running) Processes() ([]proc.Process, error) {
	groups := make([]int, len(r.parts))
	for i, p := range r.parts {
		groups[i] = p.cmd.Process.Pid
	}
	return proc.Family(groups...)
}

// Roles of a contender's processes.
const (
	RoleApplication = "application"
	RoleNginx       = "nginx"
	RoleFront       = "front" // a front that is not nginx
)

// Usages returns what the contender's processes have used since they started, by role.
func (r *Running) Usages() (map[string][]proc.Usage, error) {
	living, err := proc.All()
	if err != nil {
		return nil, err
	}
	usages := make(map[string][]proc.Usage)
	for _, p := range r.parts {
		if usages[p.role], err = proc.Usages(proc.FamilyAmong(living, p.cmd.Process.Pid)); err != nil {
			return nil, err
		}
	}
	return usages, nil
}

// Stop ends all of the contender's processes, with SIGTERM and then SIGKILL, and removes its
// scratch folder. It returns an error if a process could not be ended.
func (r *Running) Stop() error {
	r.once.Do(func() { close(r.dead) })
	family, err := r.Processes()
	for _, p := range slices.Backward(r.parts) { // the front first
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	}
	patience := stopGrace
	if r.Deaf {
		patience = 0
	}
	grace, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, p := range r.parts {
		select {
		case <-p.exited:
		case <-grace.Done():
			r.Stayed = true
		}
	}
	for _, p := range r.parts {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		r.stage.guard.send("-"+guardGroup, p.cmd.Process.Pid)
		err = errors.Join(err, p.log.Close(), p.closeSocket())
	}
	left, listErr := proc.All()
	for _, p := range left { // processes that moved to other groups
		if slices.ContainsFunc(family, func(was proc.Process) bool { return was.PID == p.PID && was.Name == p.Name }) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
			r.notice(p)
		}
	}
	strays, strayErr := endStrays(r.mark)
	for _, p := range strays {
		r.notice(p)
	}
	r.ports.Release()
	return errors.Join(err, listErr, strayErr, os.RemoveAll(r.dir))
}
