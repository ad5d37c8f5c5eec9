package pullwalk

import (
	"cmp"
	"context"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// ownOffers is what the runtime's own files have for the host of a source, by the
// rule of login; nil if they have nothing. The step is non-nil when they could not
// be read.
func (s *source) ownOffers(ctx context.Context, login func(fsys fs.FS, runtime, config, host, repository string) (authn.AuthConfig, string, error)) ([]tlsauth.Offer, *pull.Step) {
	rt := s.d.view.runtime
	type found struct {
		login authn.AuthConfig
		file  string
		err   error
	}
	got, ok := await(ctx, func() found {
		auth, file, err := login(s.d.view.FS, rt.Name, rt.ConfigFile, s.cfg.Host, cmp.Or(s.cfg.Repository, s.ref.Repository))
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
		offers[i] = offers[i].ForRuntime(rt.Name)
		offers[i].Info.Source = got.file
	}
	return offers, nil
}

// fixed is a keychain with one credential, whatever is asked for.
type fixed authn.AuthConfig

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(f)), nil
}
