// Command fleet says on which node pools a workload's images can be pulled: it
// finds every pool that could schedule the workload, asks the agent
// (examples/agent) of at least one node of each for a complete download, and
// prints what is proved. A pool that nobody looked from is open, never green.
//
// Exit codes: 0 proved on every pool, 1 a pool failed, 2 the question makes no
// sense, 3 something is open, also when it was interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// The exit codes.
const (
	exitProved  = 0
	exitFailed  = 1
	exitInvalid = 2
	exitOpen    = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, connect)
	stop()
	os.Exit(code)
}

// list is a flag that may be given more than once, or with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" && !slices.Contains(*l, v) {
			*l = append(*l, v)
		}
	}
	return nil
}

// settings are what the command line says.
type settings struct {
	kind, name, namespace string
	images, poolLabels    list
	pools                 list
	asJSON, complete      bool
	perPool, parallel     int
	agentNamespace        string
	agentPort             uint
	agentCA, tokenFile    string
	nodeTokensOf          string // NAMESPACE/NAME; "" = all agents share a certificate and the token
	pullSecrets           string
	budget, timeout       time.Duration
	kubeconfig, cluster   string
}

func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{}
	var workload string
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: fleet -workload KIND/NAME -agent-ca FILE -agent-token-file FILE [flags]")
		f.PrintDefaults()
	}
	f.StringVar(&workload, "workload", "", "`KIND/NAME`: deployment, statefulset, daemonset, job, cronjob or pod")
	f.StringVar(&s.namespace, "n", "", "its `namespace`; without it that of the kubeconfig")
	f.Var(&s.images, "image", "ask for this `image` and not for those of the workload; may be repeated")
	f.BoolVar(&s.complete, "complete", true, "download completely; without it nothing can be proved")
	f.IntVar(&s.perPool, "per-pool", 1, "nodes of each pool that should answer, the youngest first")
	f.IntVar(&s.parallel, "parallel", 4, "nodes that are asked at the same time")
	f.Var(&s.poolLabels, "pool-label", "`label` of a node that holds its pool's name; may be repeated, the first counts (default "+strings.Join(defaultPoolLabels, ", ")+")")
	f.Var(&s.pools, "pool", "`name` of a pool that counts, too, as one that has no node now; may be repeated")
	f.StringVar(&s.agentNamespace, "agent-namespace", "pullwalk", "`namespace` of the agents")
	f.UintVar(&s.agentPort, "agent-port", agentclient.DefaultPort, "port of the agents")
	f.StringVar(&s.agentCA, "agent-ca", "", "PEM `file` of what signed the agents' certificate")
	f.StringVar(&s.tokenFile, "agent-token-file", "", "`file` with the agents' token")
	f.StringVar(&s.nodeTokensOf, "node-tokens-of", "", "`NAMESPACE/NAME` of a service account: ask with a token of it for each node, which no other node's agent takes, in the place of -agent-token-file, and check that each agent's certificate is its node's")
	f.StringVar(&s.pullSecrets, "pull-secrets", secretsKeep, "`send` the workload's pull secrets to the agents asked, or ignore them; without it they stay, and nothing is proved where there are any")
	f.DurationVar(&s.budget, "budget", 0, "limit for one image on one node, at most "+agentclient.MaxBudget.String()+" (default 5m, without -complete 1m)")
	f.DurationVar(&s.timeout, "timeout", 0, "limit for everything; what is not known by then is open (default none)")
	f.BoolVar(&s.asJSON, "json", false, "print JSON ("+reportSchema+")")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "`file`; without it as kubectl, or the pod's own service account")
	f.StringVar(&s.cluster, "context", "", "`name` of a context of the kubeconfig")
	if err := f.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = errors.New("") // already said
		}
		return s, err
	}
	var err error
	s.kind, s.name, err = parseWorkload(workload)
	switch {
	case err != nil:
		return s, err
	case f.NArg() > 0:
		return s, fmt.Errorf("%q belongs to no flag", f.Arg(0))
	case s.perPool < 1 || s.parallel < 1:
		return s, errors.New("-per-pool and -parallel are at least 1")
	case s.agentPort < 1 || s.agentPort > 65535:
		return s, fmt.Errorf("-agent-port %d is no port", s.agentPort)
	case s.budget < 0 || s.budget > agentclient.MaxBudget || s.timeout < 0:
		return s, fmt.Errorf("-budget is between 0 and %v, -timeout not negative", agentclient.MaxBudget)
	case s.budget > 0 && s.budget < time.Millisecond:
		return s, errors.New("-budget is less than a millisecond")
	case !slices.Contains([]string{secretsKeep, secretsSend, secretsIgnore}, s.pullSecrets):
		return s, fmt.Errorf("-pull-secrets %q is neither %s nor %s", s.pullSecrets, secretsSend, secretsIgnore)
	case s.nodeTokensOf != "" && strings.Count(s.nodeTokensOf, "/") != 1:
		return s, fmt.Errorf("-node-tokens-of: want NAMESPACE/NAME, got %q", s.nodeTokensOf)
	case s.agentCA == "" || s.tokenFile == "" && s.nodeTokensOf == "":
		return s, errors.New("-agent-ca and -agent-token-file are needed: agents answer over TLS and to a token only")
	}
	if err := checkImages(s.images); err != nil {
		return s, err
	}
	if len(s.poolLabels) == 0 {
		s.poolLabels = defaultPoolLabels
	}
	return s, nil
}

// client makes the client of the agents. tokens gives the one of a node, where each has
// its own.
func (s settings) client(tokens func(ctx context.Context, node string) ([]byte, error)) (*agentclient.Client, error) {
	authority, err := os.ReadFile(s.agentCA)
	if err != nil {
		return nil, err
	}
	if s.nodeTokensOf != "" {
		return agentclient.NewPerNode(authority, tokens)
	}
	token := func() ([]byte, error) { return os.ReadFile(s.tokenFile) }
	if _, err := token(); err != nil {
		return nil, err
	}
	return agentclient.New(authority, token)
}

// connector connects to the cluster and says which namespace is meant by default.
type connector func(kubeconfig, cluster string) (kubernetes.Interface, string, error)

func run(ctx context.Context, args []string, stdout, stderr io.Writer, connect connector) int {
	complain := func(err error) {
		if err.Error() != "" {
			fmt.Fprintln(stderr, "fleet:", shown(err.Error()))
		}
	}
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitProved
	}
	if err != nil {
		complain(err)
		return exitInvalid
	}
	cluster, namespace, err := connect(s.kubeconfig, s.cluster)
	if err != nil {
		complain(err)
		return exitInvalid
	}
	agents, err := s.client(func(ctx context.Context, node string) ([]byte, error) {
		return nodeToken(ctx, cluster, s.nodeTokensOf, node)
	})
	if err != nil {
		complain(err)
		return exitInvalid
	}
	if s.namespace == "" {
		s.namespace = namespace
	}
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("-timeout %v is over", s.timeout))
		defer cancel()
	}
	progress := func(line string) { fmt.Fprintln(stderr, line) }
	rep, err := look(ctx, s, cluster, agents, progress)
	switch {
	case errors.As(err, new(invalidQuestion)) || apierrors.IsNotFound(err):
		complain(err)
		return exitInvalid
	case err != nil:
		complain(fmt.Errorf("%s %s/%s is not known: %s", s.namespace, s.kind, s.name, apiError(err)))
		return exitOpen
	}
	if s.asJSON {
		err = rep.printJSON(stdout)
	} else {
		_, err = io.WriteString(stdout, rep.String())
	}
	if err != nil {
		complain(err)
		return exitOpen // nobody has read a proof
	}
	switch rep.Verdict {
	case pullwalk.StatusOK:
		return exitProved
	case pullwalk.StatusFailed:
		return exitFailed
	}
	return exitOpen
}

// invalidQuestion is one that no cluster could answer.
type invalidQuestion struct{ error }
