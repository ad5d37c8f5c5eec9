package tlsauth

import (
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// For the time of the move only: what now stands in internal/registry.
type (
	AccessReport   = registry.Access
	CredentialInfo = registry.CredentialInfo
	TokenAttempt   = registry.TokenAttempt
	Challenge      = classify.Challenge
	Rights         = registry.Rights
	Grant          = registry.Grant
)
