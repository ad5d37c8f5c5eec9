package main

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	maxPools    = 200 // different names in metrics; more are one
	unknownPool = "unknown"
	otherPools  = "other"
)

// pools knows to which pool a node belongs, by the labels that providers set.
type pools struct {
	reader client.Reader
	keys   []string // the first that the node bears counts

	mu   sync.Mutex
	seen map[string]bool
}

// of asks for one node's metadata: that is done once for a node in trouble, and needs
// less of a right than to watch all nodes. A node that is not known costs the label, no more.
func (p *pools) of(ctx context.Context, node string) (string, error) {
	var n metav1.PartialObjectMetadata
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := p.reader.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		return unknownPool, client.IgnoreNotFound(err)
	}
	for _, k := range p.keys {
		if name := n.Labels[k]; name != "" {
			return p.bounded(name), nil
		}
	}
	return unknownPool, nil
}

func (p *pools) bounded(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[name] {
		return name
	}
	if len(p.seen) >= maxPools {
		return otherPools
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[name] = true
	return name
}
