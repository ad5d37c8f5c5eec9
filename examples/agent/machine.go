package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// machine is the node that is looked from.
type machine struct {
	hostRoot   string   // where its file tree is seen; "" = this machine's own
	node       string   // the cluster's name for it; "" = not known
	registries []string // whose images are diagnosed; nil = all
	plugins    bool     // the kubelet's credential plugins are run
}

// check says what of the flags makes no sense.
func (m machine) check() error {
	if m.plugins && m.hostRoot != "" && m.hostRoot != "/" {
		return fmt.Errorf("-run-credential-plugins: want the node's own root, got -host-root %s", m.hostRoot)
	}
	return nil
}

// invalidQuestion is one that no node could answer.
type invalidQuestion struct{ error }

// unwelcome is a question that this agent may not answer.
type unwelcome struct{ error }

// diagnose answers a request: one result per image, in their order.
func (m machine) diagnose(ctx context.Context, req agentclient.Request) ([]*pullwalk.Result, error) {
	if err := req.Check(); err != nil {
		return nil, invalidQuestion{err}
	}
	for _, image := range req.Images {
		if err := m.allowed(image); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, req.Budget())
	defer cancel()
	opts := &pullwalk.Options{
		Node: m.view(), Keychain: podSecrets(req.PullSecrets), NodeCredentials: true, RunPlugins: m.plugins, Pull: req.Pull, Events: req.Events,
		Budget: req.Budget(), UserAgent: "pullwalk-agent",
	}
	results, err := pullwalk.DiagnoseAll(ctx, req.Images, opts)
	if err != nil {
		if unseen := m.seen(); unseen != nil {
			return nil, unseen
		}
		return nil, invalidQuestion{err}
	}
	return results, nil
}

// seen says why the node's file tree cannot be looked at, nil if it can.
func (m machine) seen() error {
	if m.hostRoot == "" {
		return nil
	}
	_, err := os.ReadDir(m.hostRoot)
	return err
}

func (m machine) view() pullwalk.Node {
	var n pullwalk.Node
	if m.hostRoot != "" {
		n = pullwalk.HostNode(m.hostRoot)
	}
	if m.node != "" {
		n.Labels = map[string]string{agentclient.NodeLabel: m.node}
	}
	return n
}

func (m machine) allowed(image string) error {
	ref, err := endpoints.ParseReference(image)
	if err != nil {
		return invalidQuestion{err}
	}
	if m.registries != nil && !slices.Contains(m.registries, ref.Registry) {
		return unwelcome{fmt.Errorf("images of %s are not diagnosed by this agent", classify.Redact(ref.Registry, 200))}
	}
	return nil
}

// podSecrets are the pod's, which the request brings. The kubelet offers the node's
// own after them, [pullwalk.Options.NodeCredentials].
func podSecrets(secrets []agentclient.PullSecret) *tlsauth.Kubelet {
	k := &tlsauth.Kubelet{}
	for _, s := range secrets {
		k.Secrets = append(k.Secrets, tlsauth.PullSecret{Name: s.Name, Type: s.Type, Data: s.Data, Missing: s.Missing})
	}
	return k
}
