package engine

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// credentials asks the keychain what the kubelet would try, and leaves out what
// the runtime does not send to this source. The step is non-nil when the keychain
// did not answer.
func (s *source) credentials(ctx context.Context, reg *pull.Host) ([]pull.Credential, *pull.Step) {
	if s.image.sandbox != nil {
		return s.sandboxOffers(ctx)
	}
	others := []pull.Credential{{Info: registry.CredentialInfo{Source: "anonymous: the runtime sends this host no credential of the image"}}}
	if s.cfg.Credential == noderuntime.CredentialNone {
		if own, step := s.ownOffers(ctx, ""); own == nil && step == nil {
			return others, nil // whatever the kubelet would offer
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxKeychain)
	defer cancel()
	if pull.HasSeverity(s.image.plan.Findings(), classify.SeverityFail) { // the kubelet ends the pull before the runtime hears of it
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusBlocked, BlockedBy: pull.StepName(pull.StepSecrets, reg.HostPort(), netip.Addr{})}
	}
	if p := s.image.plan; p != nil && p.Inconclusive != "" && len(p.Offered) == 0 {
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusInconclusive, Reason: "what the kubelet would offer is not known: " + classify.Redact(p.Inconclusive, 300)}
	}
	offers, err := tlsauth.Offers(ctx, s.image.opts.Keychain, s.image.ref.String())
	if err != nil {
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusInconclusive, Reason: classify.Redact(err.Error(), 300)}
	}
	if len(offers) == 1 && credentialOf(offers[0]).Secret.IsZero() { // the kubelet hands over none
		own, step := s.ownOffers(ctx, "")
		if own != nil || step != nil {
			s.ownLogin = true
			return own, step
		}
	}
	if s.cfg.Credential == noderuntime.CredentialNone {
		return others, nil
	}
	return s.sent(offers, ""), nil
}

// sent are the offers in the form in which this node's runtime sends them. source is
// where they come from, "" = as each says.
func (s *source) sent(offers []tlsauth.Offer, source string) []pull.Credential {
	out := make([]pull.Credential, len(offers))
	for i, o := range offers {
		o = o.ForRuntime(s.image.view.Runtime.Name)
		o.Info.Source = cmp.Or(source, o.Info.Source)
		out[i] = credentialOf(o)
	}
	return out
}

func credentialOf(o tlsauth.Offer) pull.Credential {
	a := o.Auth()
	return pull.Credential{
		Secret: registry.Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken},
		Info:   registry.CredentialInfo(o.Info), Accepted: registry.CredentialInfo(o.Accepted()),
	}
}

// sandboxOffers is what the runtime's own files have for the host of a source: the kubelet
// hands over nothing for this image.
func (s *source) sandboxOffers(ctx context.Context) ([]pull.Credential, *pull.Step) {
	offers, step := s.ownOffers(ctx, s.image.sandbox.AuthFile)
	if offers == nil && step == nil {
		return []pull.Credential{{Info: registry.CredentialInfo{Source: "anonymous: pull secrets are not used for the sandbox image, and the runtime's files have nothing for " + s.cfg.Host}}}, nil
	}
	return offers, step
}

// planCredentials asks a keychain that plans as the kubelet does, and probes the hosts
// that the credentials come from: when they cannot be reached, the pull looks like a missing right.
func (c *image) planCredentials(ctx context.Context, s *source) {
	keychain, ok := c.opts.Keychain.(node.Planner)
	if !ok {
		return
	}
	asking, cancel := context.WithTimeout(ctx, maxKeychain)
	defer cancel()
	plan, ok := notify.Await(asking, func() *tlsauth.CredentialPlan {
		plan, err := keychain.Plan(asking, c.ref.String())
		if err != nil {
			return nil
		}
		return plan
	})
	if !ok || plan == nil {
		return // the offers, asked for later, say why
	}
	c.plan = plan
	for _, from := range plan.Sources {
		for _, hp := range from.Hosts {
			host, port, err := pull.SplitHostPort(hp)
			if err != nil {
				continue
			}
			scheme := "https"
			if port == 80 {
				scheme = "http"
			}
			s.run.Host(ctx, pull.Target{Scheme: scheme, Host: host, Port: port, Role: registry.RoleCredential, FoundBy: from.Kind + " " + from.Name, Expected: true})
		}
	}
}

// recordPlan says at the registry's host what the plan found.
func (s *source) recordPlan(reg *pull.Host) {
	if p := s.image.plan; p != nil {
		reason := ""
		if p.Inconclusive != "" && len(p.Offered) == 0 {
			reason = p.Inconclusive
		}
		reg.Record(pull.StatusOf(pull.Step{ID: pull.StepSecrets}, true, reason, p.Findings()), 0)
	}
}

// ownOffers is what the runtime's own files have for the host of a source; nil if
// they have nothing. authFile is the file that is configured for this image alone.
// The step is non-nil when they could not be read.
func (s *source) ownOffers(ctx context.Context, authFile string) ([]pull.Credential, *pull.Step) {
	type found struct {
		login authn.AuthConfig
		file  string
		err   error
	}
	got, ok := notify.Await(ctx, func() found {
		auth, file, err := s.image.view.Config().Login(s.cfg.Host, cmp.Or(s.cfg.Repository, s.image.ref.Repository), authFile)
		return found{auth, file, err}
	})
	switch {
	case !ok:
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusInconclusive, Reason: pull.EndOf(ctx)}
	case got.err != nil:
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusInconclusive, Reason: "the runtime's own credential could not be read: " + classify.Redact(got.err.Error(), 300)}
	case got.file == "":
		return nil, nil
	}
	offers, err := tlsauth.Offers(ctx, fixed(got.login), s.image.ref.String())
	if err != nil {
		return nil, &pull.Step{ID: pull.StepToken, Status: pull.StatusInconclusive, Reason: classify.Redact(err.Error(), 300)}
	}
	return s.sent(offers, got.file), nil
}

// fixed is a keychain with one credential, whatever is asked for.
type fixed authn.AuthConfig

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(f)), nil
}
