package agentclient

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// What both sides keep to. An agent refuses more with a status of 400 or 413.
const (
	Path           = "/v1/diagnose"
	DefaultPort    = 9741
	MaxImages      = 16
	MaxEvents      = 500
	MaxPullSecrets = 16
	MaxAuths       = 1024 // entries of one pull secret; each costs its parsing for every image
	MaxBudget      = 10 * time.Minute
	MaxRequest     = 4 << 20 // bytes of a request's body; Kubernetes keeps a secret below 1 MiB
	NodeLabel      = "node"  // the label of a result's vantage that holds the node's name
)

// Request is the body of POST /v1/diagnose.
type Request struct {
	// Node is the cluster's name of the node that is meant; "" = whichever answers.
	// An agent of another node refuses, with 421: an address may have gone to a
	// new node.
	Node   string   `json:"node,omitempty"`
	Images []string `json:"images"` // at least one
	// Pull is "touch", "complete" or "connect"; "" = touch.
	Pull pullwalk.PullMode `json:"pull,omitempty"`
	// BudgetMS limits the whole request; 0 = 60 s, with "complete" 5 min.
	BudgetMS int64 `json:"budgetMs,omitempty"`
	// Events are what the cluster reported, to compare with.
	Events []classify.EventRecord `json:"events,omitempty"`
	// PullSecrets are those of the pod, then of its service account. The node's own
	// credentials come from the node and are never sent.
	PullSecrets []PullSecret `json:"pullSecrets,omitempty"`
}

// Budget is how long the agent may take.
func (r *Request) Budget() time.Duration {
	switch {
	case r.BudgetMS > 0:
		return time.Duration(r.BudgetMS) * time.Millisecond
	case r.Pull == pullwalk.Complete:
		return 5 * time.Minute
	}
	return time.Minute
}

// PullSecret is a pull secret as the Kubernetes API shows it.
type PullSecret struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"`    // "" = kubernetes.io/dockerconfigjson
	Data    []byte `json:"data,omitempty"`    // of .dockerconfigjson or .dockercfg, in base64
	Missing bool   `json:"missing,omitempty"` // it does not exist
}

// String returns the name, never the content.
func (s PullSecret) String() string { return s.Name }

// GoString keeps %#v from printing the content.
func (s PullSecret) GoString() string { return "agentclient.PullSecret{" + s.Name + "}" }

// Check says what of the request makes no sense, whatever the images are.
func (r *Request) Check() error {
	switch {
	case len(r.Images) == 0:
		return errors.New("no image is named")
	case len(r.Images) > MaxImages:
		return fmt.Errorf("%d images; at most %d are diagnosed at once", len(r.Images), MaxImages)
	case len(r.Events) > MaxEvents:
		return fmt.Errorf("%d events; at most %d are compared", len(r.Events), MaxEvents)
	case len(r.PullSecrets) > MaxPullSecrets:
		return fmt.Errorf("%d pull secrets; at most %d are looked at", len(r.PullSecrets), MaxPullSecrets)
	case r.BudgetMS < 0 || r.BudgetMS > MaxBudget.Milliseconds():
		return fmt.Errorf("a budget of %d ms is not between 0 and %d", r.BudgetMS, MaxBudget.Milliseconds())
	}
	for _, s := range r.PullSecrets {
		if secretBounds.check(s.Data) != nil {
			return fmt.Errorf("the pull secret %s: want at most %d entries", strconv.Quote(classify.Redact(s.Name, 128)), MaxAuths)
		}
	}
	switch r.Pull {
	case "", pullwalk.Touch, pullwalk.Complete, pullwalk.Connect:
		return nil
	}
	return errors.New("pull is none of touch, complete and connect")
}
