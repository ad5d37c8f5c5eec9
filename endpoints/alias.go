package endpoints

import (
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// For the time of the move only: what now stands in internal/registry.
type (
	Walk          = registry.Walk
	RequestReport = registry.Report
	Reference     = registry.Reference
	Platform      = registry.Platform
	Manifest      = registry.Manifest
	Descriptor    = registry.Descriptor
	Role          = registry.Role
	Outcome       = registry.Outcome
	Mode          = registry.Mode
	Retry         = registry.Retry
)

const (
	RoleManifest   = registry.RoleManifest
	RoleToken      = registry.RoleToken
	RoleBlob       = registry.RoleBlob
	RoleMirror     = registry.RoleMirror
	RoleProxy      = registry.RoleProxy
	RoleResolver   = registry.RoleResolver
	RoleExpected   = registry.RoleExpected
	RoleSandbox    = registry.RoleSandbox
	RoleCredential = registry.RoleCredential

	OutcomeHeld         = registry.OutcomeHeld
	OutcomeRedirect     = registry.OutcomeRedirect
	OutcomeNeedsToken   = registry.OutcomeNeedsToken
	OutcomeNeedsGet     = registry.OutcomeNeedsGet
	OutcomeNotNeeded    = registry.OutcomeNotNeeded
	OutcomeFailed       = registry.OutcomeFailed
	OutcomeInconclusive = registry.OutcomeInconclusive

	First64K  = registry.First64K
	Whole     = registry.Whole
	Ranged64K = registry.Ranged64K

	MaxRequests = registry.MaxRequests
)

// ParseReference reads an image name.
func ParseReference(image string) (Reference, error) { return registry.ParseReference(image) }

// ParsePlatform reads a platform.
func ParsePlatform(s string) (Platform, error) { return registry.ParsePlatform(s) }

// CompareRange holds a Range against a request without one.
func CompareRange(ranged, plain *RequestReport) []classify.Finding {
	return registry.CompareRange(ranged, plain)
}

// CompareHead holds a HEAD against a GET.
func CompareHead(head, get *RequestReport) []classify.Finding { return registry.CompareHead(head, get) }
