// Command controller says on each Pod that cannot pull an image which layer is
// broken, who owns it and where to look, as the agent on the Pod's node sees it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// config is what the flags say.
type config struct {
	agentNamespace, agentName string
	agentPort                 uint
	ask                       asker // nil = by the files below
	authority, token          string
	account                   string // NAMESPACE/NAME; "" = all agents share a certificate and the token
	sendSecrets, eventsOnly   bool
	poolLabels                string
	concurrent                int
	elect                     bool
	namespace                 string // of the lease; "" = the one that it runs in
	metrics, health           string
	registry                  prometheus.Registerer // nil = the one that is served
}

func main() {
	ctrl.SetLogger(klog.Background())
	cfg, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(cfg config) error {
	rc, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(rc, cfg)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func parse(args []string, out io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("controller", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&c.agentNamespace, "agent-namespace", "pullwalk", "namespace of the agents")
	f.StringVar(&c.agentName, "agent-name", "pullwalk-agent", "label app.kubernetes.io/name of the agents' Pods")
	f.UintVar(&c.agentPort, "agent-port", agentclient.DefaultPort, "port of the agents on their nodes")
	f.StringVar(&c.authority, "agent-ca", "/etc/pullwalk/tls.crt", "certificate that the agents' is signed by, or that certificate")
	f.StringVar(&c.token, "token-file", "/etc/pullwalk/token", "bearer token for the agents")
	f.StringVar(&c.account, "node-tokens-of", "", "`NAMESPACE/NAME` of the own service account: ask with a token of it for each node, which no other node's agent takes, in the place of -token-file, and check that each agent's certificate is its node's")
	f.BoolVar(&c.eventsOnly, "events-only", false, "write events and metrics, and no condition: then the right to patch pods/status is not needed")
	f.BoolVar(&c.sendSecrets, "send-pull-secrets", false, "send Pods' pull secrets to the agent on their node; needs the right to get secrets")
	f.StringVar(&c.poolLabels, "pool-labels", "kubernetes.azure.com/agentpool,agentpool,cloud.google.com/gke-nodepool,eks.amazonaws.com/nodegroup,karpenter.sh/nodepool",
		"labels of a node that may name its pool; the first that is there counts")
	f.IntVar(&c.concurrent, "concurrent", 32, "nodes that are asked at once")
	f.BoolVar(&c.elect, "leader-elect", false, "only the leader of several replicas works")
	f.StringVar(&c.metrics, "metrics-address", ":8080", "address of /metrics; 0 = none")
	f.StringVar(&c.health, "health-address", ":8081", "address of /healthz; 0 = none")
	if err := f.Parse(args); err != nil {
		return config{}, err
	}
	switch {
	case f.NArg() > 0:
		return config{}, fmt.Errorf("%q is no flag", f.Arg(0))
	case c.agentPort == 0 || c.agentPort > 65535:
		return config{}, fmt.Errorf("-agent-port %d is no port", c.agentPort)
	case c.account != "" && strings.Count(c.account, "/") != 1:
		return config{}, fmt.Errorf("-node-tokens-of: want NAMESPACE/NAME, got %q", c.account)
	case c.concurrent < 1:
		return config{}, errors.New("-concurrent is at least 1")
	}
	return c, nil
}

// newManager makes the whole program for one cluster.
func newManager(rc *rest.Config, cfg config) (manager.Manager, error) {
	if cfg.ask == nil {
		cfg.ask = files{cfg.authority, cfg.token}
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: scheme.Scheme,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			// What has ended pulls nothing any more.
			Field:     fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed"),
			Transform: slim,
		}}},
		Metrics:                metricsserver.Options{BindAddress: cfg.metrics},
		HealthProbeBindAddress: cfg.health,
		LeaderElection:         cfg.elect, LeaderElectionID: "pullwalk-controller", LeaderElectionNamespace: cfg.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	if namespace, name, ok := strings.Cut(cfg.account, "/"); ok {
		tokens := nodeTokens{mgr.GetClient().SubResource("token"), client.ObjectKey{Namespace: namespace, Name: name}}
		cfg.ask = perNode{cfg.authority, tokens.token}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if cfg.registry == nil {
		cfg.registry = ctrlmetrics.Registry
	}
	m, err := newMetrics(cfg.registry)
	if err != nil {
		return nil, err
	}
	r := &reconciler{
		pods: mgr.GetCache(), live: mgr.GetAPIReader(), ask: cfg.ask,
		agents:  agents{mgr.GetCache(), cfg.agentNamespace, cfg.agentName, uint16(cfg.agentPort)},
		pools:   &pools{reader: mgr.GetAPIReader(), keys: strings.Split(cfg.poolLabels, ",")},
		secrets: secrets{mgr.GetAPIReader(), cfg.sendSecrets},
		teller:  teller{writer: mgr.GetClient().Status(), recorder: mgr.GetEventRecorder("pullwalk.dev/controller"), eventsOnly: cfg.eventsOnly},
		metrics: m, now: time.Now,
	}
	return mgr, r.watch(mgr, cfg.concurrent)
}
