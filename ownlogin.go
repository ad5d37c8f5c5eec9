package pullwalk

import (
	"cmp"
	"context"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// ownOffers is what the runtime's own files have for the host of a source; nil if
// they have nothing. authFile is the file that is configured for this image alone.
// The step is non-nil when they could not be read.
func (s *source) ownOffers(ctx context.Context, authFile string) ([]tlsauth.Offer, *pull.Step) {
	type found struct {
		login authn.AuthConfig
		file  string
		err   error
	}
	got, ok := await(ctx, func() found {
		auth, file, err := s.d.view.config().Login(s.cfg.Host, cmp.Or(s.cfg.Repository, s.ref.Repository), authFile)
		return found{auth, file, err}
	})
	switch {
	case !ok:
		return nil, &pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: reasonOf(ctx)}
	case got.err != nil:
		return nil, &pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: "the runtime's own credential could not be read: " + classify.Redact(got.err.Error(), 300)}
	case got.file == "":
		return nil, nil
	}
	offers, err := tlsauth.Offers(ctx, fixed(got.login), s.d.ref.String())
	if err != nil {
		return nil, &pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: classify.Redact(err.Error(), 300)}
	}
	for i := range offers {
		offers[i] = offers[i].ForRuntime(s.d.view.runtime.Name)
		offers[i].Info.Source = got.file
	}
	return offers, nil
}

// fixed is a keychain with one credential, whatever is asked for.
type fixed authn.AuthConfig

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(f)), nil
}
