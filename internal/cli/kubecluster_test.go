package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// cluster is a Kubernetes of one node, in namespaces of its own.
type cluster struct {
	t     *testing.T
	dir   string
	env   []string
	pid   int // first process of the namespaces
	owned cgroups
}

const (
	// nodeAddress is the node's address for its pods.
	nodeAddress = "10.244.0.1"
	apiServer   = "https://127.0.0.1:6443"
	// clusterPatience is the longest time for a step of a cluster's start.
	clusterPatience = 3 * time.Minute
)

// newCluster starts a cluster and waits until its node is ready.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	needNamespaces(t)
	folders, env := programs.Kubernetes(t)
	k := &cluster{t: t, dir: t.TempDir(), env: env}
	k.env = append(k.env, "PATH="+strings.Join(folders, ":")+":"+os.Getenv("PATH"), "KUBECONFIG="+k.file("admin.conf"))
	k.writeFiles(folders)
	k.openNamespaces()
	k.start("etcd", "--data-dir", k.file("etcd"))
	k.start("containerd", "-c", k.file("containerd.toml"))
	k.start("kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--bind-address", "0.0.0.0", "--secure-port",
		"6443",
		"--advertise-address", nodeAddress, "--tls-cert-file", k.file("api.crt"), "--tls-private-key-file",
		k.file("api.key"),
		"--client-ca-file", k.file("api.crt"), "--token-auth-file", k.file("tokens.csv"), "--authorization-mode",
		"Node,RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", k.file("api.key"),
		"--service-account-signing-key-file", k.file("api.key"), "--service-cluster-ip-range", "10.96.0.0/24",
		"--cert-dir", k.file("certs"), "--kubelet-preferred-address-types=InternalIP")
	k.await("containerd", "ctr", "-a", "/run/containerd/containerd.sock", "version")
	k.await("the API server", "kubectl", "get", "--raw", "/readyz")
	k.start("kube-controller-manager", "--kubeconfig", k.file("admin.conf"), "--leader-elect=false",
		"--service-account-private-key-file", k.file("api.key"), "--root-ca-file", k.file("api.crt"),
		"--bind-address", "127.0.0.1", "--cert-dir", k.file("certs"))
	k.start("kube-scheduler", "--kubeconfig", k.file("admin.conf"), "--leader-elect=false", "--bind-address",
		"127.0.0.1",
		"--cert-dir", k.file("certs"))
	k.start("kubelet", "--config", k.file("kubelet.yaml"), "--kubeconfig", k.file("kubelet.conf"),
		"--hostname-override",
		"node1", "--node-ip", nodeAddress, "--cert-dir", k.file("certs"))
	k.await("the node", "kubectl", "wait", "--for=condition=Ready", "node/node1", "--timeout=1s")
	k.await("the service account", "kubectl", "get", "serviceaccount", "default")
	return k
}

// file returns the path of one of the cluster's files.
func (k *cluster) file(name string) string { return filepath.Join(k.dir, name) }

func (k *cluster) write(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(k.file(name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// writeFiles writes keys and configurations.
func (k *cluster) writeFiles(folders []string) {
	k.t.Helper()
	k.writeCertificate()
	k.write("tokens.csv", "admin-token,admin,1,\"system:masters\"\nnode-token,system:node:node1,2,\"system:nodes\"\n"+
		"nobody-token,nobody,3,\"nobodies\"\n")
	for name, token := range map[string]string{"admin": "admin-token", "kubelet": "node-token",
		"nobody": "nobody-token"} {
		k.write(name+".conf", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, apiServer, k.file("api.crt"), token))
	}
	k.write("containerd.toml", fmt.Sprintf(`version = 2
root = "%[1]s/containerd"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[2]s"
    conf_dir = "%[1]s/cni"
`, k.dir, folderOf(k.t, folders, "bridge")))
	if err := os.Mkdir(k.file("cni"), 0o755); err != nil {
		k.t.Fatal(err)
	}
	k.write("cni/10-pods.conflist", `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "10.244.0.0/24"}]]}},
 {"type": "loopback"}]}`)
	k.write("kubelet.yaml", `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
resolvConf: /run/resolv.conf
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "50Mi", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%",
	imagefs.inodesFree: "0%"}
`)
}

// folderOf returns the folder that has a program.
func folderOf(t *testing.T, folders []string, name string) string {
	t.Helper()
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return dir
		}
	}
	t.Fatalf("no program %s in %v", name, folders)
	return ""
}

// writeCertificate writes the API server's certificate, which signs itself, and its key. Tokens of
// service accounts are signed with the same key.
func (k *cluster) writeCertificate() {
	k.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames:    []string{"kubernetes"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(nodeAddress), net.IPv4(10, 96, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		k.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		k.t.Fatal(err)
	}
	k.write("api.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	k.write("api.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

// openNamespaces starts the first process of the node's namespaces, and its network.
func (k *cluster) openNamespaces() {
	k.t.Helper()
	var err error
	if k.owned, err = newCgroups(fmt.Sprintf("tare-test-%d", os.Getpid())); err != nil {
		k.t.Skip(err)
	}
	k.t.Cleanup(func() { // after the processes have ended
		if err := k.owned.remove(); err != nil {
			k.t.Error(err)
		}
	})
	ready := k.file("ready")
	c := k.owned.within("unshare", "--mount", "--net", "--pid", "--cgroup", "--uts", "--ipc", "--fork", "--kill-child",
		"--mount-proc", "--propagation", "private", "kubenode", ready)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	outer := testkit.Start(k.t, c)
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		select {
		case <-outer.Done():
			k.t.Skipf("a node needs more privileges than this machine permits: %v", outer.Wait())
		default:
		}
		if time.Now().After(late) {
			k.t.Fatal("the node's namespaces are not ready")
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(b), &k.pid)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	ip, env := programs.IP(k.t)
	k.env = append(k.env, env...)
	for _, line := range []string{
		"link add cni0 type bridge", "address add " + nodeAddress + "/24 dev cni0", "link set cni0 up",
		"route add default dev cni0",
	} {
		k.run(append([]string{ip}, strings.Fields(line)...)...)
	}
}

// command returns a command on the node.
func (k *cluster) command(words ...string) *exec.Cmd {
	enter := []string{"nsenter", "--all", "--target", fmt.Sprint(k.pid)}
	c := k.owned.within(append(enter, words...)...)
	c.Env, c.Dir = append(c.Env, k.env...), k.dir
	return c
}

// start starts a program of the cluster. Its output is logged if the test fails.
func (k *cluster) start(words ...string) {
	k.t.Helper()
	log, err := os.Create(k.file(words[0] + ".log"))
	if err != nil {
		k.t.Fatal(err)
	}
	c := k.command(words...)
	c.Stdout, c.Stderr = log, log
	p := testkit.Start(k.t, c)
	log.Close()
	k.t.Cleanup(func() {
		b, _ := os.ReadFile(log.Name())
		select {
		case <-p.Done():
			k.t.Errorf("%s has ended: %s", words[0], tailOf(b))
		default:
			if k.t.Failed() {
				k.t.Logf("%s: %s", words[0], tailOf(b))
			}
		}
	})
}

// tailOf returns the end of a log.
func tailOf(b []byte) []byte {
	const most = 3000
	return b[max(0, len(b)-most):]
}

// run runs a program on the node and returns its output.
func (k *cluster) run(words ...string) string {
	k.t.Helper()
	out, err := k.command(words...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("%v: %v: %s", words, err, out)
	}
	return string(out)
}

// await waits until a command succeeds.
func (k *cluster) await(what string, words ...string) {
	k.t.Helper()
	for late := time.Now().Add(clusterPatience); ; time.Sleep(200 * time.Millisecond) {
		out, err := k.command(words...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(late) {
			k.t.Fatalf("%s is not ready: %v: %s", what, err, out)
		}
	}
}
