package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

func TestRegistryAsksForNoCredential(t *testing.T) {
	t.Parallel()
	s := whole(registryAt(unknown(pull.StepSecrets, "plugins are not run"), unknown(pull.StepToken, "why")))
	s.Accepted = pull.Anonymous
	res := judged(t, s)
	require.Equal(t, [][4]string{{"registry-asks-for-no-credential", "secrets@a:443", "inconclusive", "skipped"}}, told(res.Decisions))
	require.Equal(t, "the registry asks for no credential; plugins are not run", res.Sources[0].Endpoints[0].Steps[0].Reason)
	for _, accepted := range []int{0, 1} {
		s.Accepted = accepted
		require.Empty(t, of(judged(t, s).Decisions, "registry-asks-for-no-credential"))
	}
	s.Accepted, s.Endpoints[0].Steps[0] = pull.Anonymous, step(pull.StepSecrets, fail(classify.IdentityPullSecretMissing))
	require.Empty(t, of(judged(t, s).Decisions, "registry-asks-for-no-credential"), "a kubelet that ends the pull does so for any registry")
}

func TestLaterCredentialWasAccepted(t *testing.T) {
	t.Parallel()
	bad := fail(classify.IdentityBadCredentials)
	s := whole(
		registryAt(
			one(step(pull.StepResolve, fail(classify.IdentityForbidden))).nth(1), one(step(pull.StepResolve)).nth(2),
			one(step(pull.StepManifest, fail(classify.ImageNotFound))).nth(0)),
		at("token", one(step(pull.StepToken, bad)).nth(0), one(unknown(pull.StepToken, "it claims too little")).nth(1), one(step(pull.StepToken, bad)).nth(2)),
		at("elsewhere", one(step(pull.StepResolve, fail(classify.ImageNotFound))).nth(1)))
	s.Accepted = 2
	res := judged(t, s)
	require.Equal(t, [][4]string{
		{"later-credential-was-accepted", "identity.forbidden in resolve@a:443", "fail", "warn"},
		{"later-credential-was-accepted", "resolve@a:443", "failed", "degraded"},
		{"later-credential-was-accepted", "identity.bad-credentials in token@token:443", "fail", "warn"},
		{"later-credential-was-accepted", "token@token:443", "failed", "degraded"},
		{"later-credential-was-accepted", "token@token:443", "inconclusive", "degraded"},
	}, of(res.Decisions, "later-credential-was-accepted"))
	require.Equal(t, "the credential tried as number 2 may read", res.Decisions[0].Why)
	require.Equal(t, pull.StatusFailed, res.Sources[0].Endpoints[1].Steps[2].Status, "a renewal comes after it")
	for _, accepted := range []int{0, pull.Anonymous} {
		s.Accepted = accepted
		require.Empty(t, of(judged(t, s).Decisions, "later-credential-was-accepted"))
	}
}

func TestKubeletOfferedNothing(t *testing.T) {
	t.Parallel()
	refused := step(pull.StepToken, fail(classify.IdentityNoMatchingCredential))
	source := func(secrets, token pull.Step) pull.Source {
		s := broken(registryAt(secrets, step(pull.StepChallenge)), at("token", token))
		s.NotOffered = true
		return s
	}
	for _, cause := range []classify.Cause{
		classify.IdentityPullSecretMissing, classify.IdentityPullSecretInvalid, classify.IdentityProviderConfigInvalid,
		classify.IdentityCredentialPluginFailed, classify.IdentitySourceUnreachable,
	} {
		s := source(step(pull.StepSecrets, warn(classify.IdentityOverBroad), warn(cause)), refused)
		require.Equal(t, "secrets@a:443", FirstFailure(s))
		res := judged(t, s)
		require.Equal(t, [][4]string{
			{"kubelet-offered-nothing", string(cause) + " in secrets@a:443", "warn", "fail"},
			{"kubelet-offered-nothing", "secrets@a:443", "degraded", "failed"},
			{"kubelet-offered-nothing", "identity.no-matching-credential in token@token:443", "fail", "warn"},
			{"lowest-layer-first", "root cause", "", string(cause) + " at a:443"},
		}, told(res.Decisions))
		require.Equal(t, cause, res.Primary.Cause)
		require.Equal(t, []string{"fail " + string(cause), "warn identity.over-broad", "warn identity.no-matching-credential"}, codes(res.Findings))
	}
	missing := step(pull.StepSecrets, warn(classify.IdentityPullSecretMissing))
	silent := func(s pull.Source) {
		t.Helper()
		require.Empty(t, of(judged(t, s).Decisions, "kubelet-offered-nothing"))
	}
	s := source(missing, refused)
	s.NotOffered = false // or it is not known
	silent(s)
	s = source(missing, refused)
	s.Accepted = 1
	silent(s)
	s.Accepted = pull.Anonymous
	silent(s)
	silent(source(step(pull.StepSecrets, warn(classify.IdentityOverBroad)), refused))
	silent(source(missing, step(pull.StepToken, fail(classify.RegistryServerError))))
	silent(source(missing, step(pull.StepToken, warn(classify.IdentityNoMatchingCredential))))
	silent(source(missing, step(pull.StepManifest, fail(classify.IdentityForbidden))))
	silent(source(missing, step(pull.StepResolve, fail(classify.IdentityForbidden)))) // nothing was tried: the first answer was no question

	s = source(step(pull.StepSecrets, fail(classify.IdentityPullSecretMissing)), refused)
	require.Equal(t, [][4]string{{"kubelet-offered-nothing", "identity.no-matching-credential in token@token:443", "fail", "warn"}},
		of(judged(t, s).Decisions, "kubelet-offered-nothing"), "it is the cause already")
}

// The refusal of the manifest itself follows from it, too.
func TestKubeletOfferedNothingAndTheManifestIsRefused(t *testing.T) {
	t.Parallel()
	s := broken(registryAt(step(pull.StepSecrets, warn(classify.IdentityPullSecretMissing)), one(step(pull.StepResolve, fail(classify.IdentityForbidden))).nth(1)), at("token", step(pull.StepToken)))
	s.NotOffered = true
	res := judged(t, s)
	require.Equal(t, classify.IdentityPullSecretMissing, res.Primary.Cause)
	require.Equal(t, []string{"fail identity.pull-secret-missing", "warn identity.forbidden"}, codes(res.Findings))
}
