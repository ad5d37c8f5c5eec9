package pullwalk

import (
	"context"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// imageRun is one image under diagnosis.
type imageRun struct {
	*diagnosis
	ref      registry.Reference
	company  *company
	sandbox  *sandboxFiles           // nil = an image that was asked for
	plan     *tlsauth.CredentialPlan // what a kubelet would offer, and why; nil = not known
	told     told                    // what the cluster reported about this image
	unsure   bool                    // it is not known whether the runtime's configuration is in force
	climbing sync.WaitGroup          // what the walk started and did not wait for
	checking sync.WaitGroup          // the caller's own checks
	over     chan struct{}           // closed when all but those has ended

	mu        sync.Mutex
	manifests int // manifest requests sent
	identity  string
}

func (d *diagnosis) newPull(ref registry.Reference) *imageRun {
	return &imageRun{diagnosis: d, ref: ref, over: make(chan struct{}), identity: "anonymous"}
}

// run walks the sources in the runtime's order and gathers the result.
func (d *imageRun) run(ctx context.Context, c configured) *Result {
	findings, err := c.findings, c.err
	d.told = c.told
	var sources []*source
	for _, s := range c.sources {
		sources = append(sources, d.newSource(s))
	}
	usable := sources[0].judgeSettings(findings, err)
	d.unsure = slices.ContainsFunc(findings, func(f classify.Finding) bool {
		return f.Cause == classify.NodeRuntimeConfigIgnored && f.Certainty == classify.CertaintyPossible
	})
	if d.sandbox == nil { // the image's own walk does so
		sources[0].resolvers(ctx)
	}
	sources[len(sources)-1].also(ctx)
	d.planCredentials(ctx, sources[len(sources)-1])
	for i, s := range sources {
		if !usable {
			s.block()
			if i > 0 {
				s.skipped = "the runtime's configuration stops the pull before it is asked"
			}
			continue
		}
		walked := afterSilence(ctx, func() { s.lookAhead(ctx, sources[i+1:]) })
		s.walk(ctx)
		walked()
		if s.digest != "" {
			d.pullByDigest(ctx, sources, s.digest)
		}
		if slices.ContainsFunc(sources, func(s *source) bool { return judge.Serves(s.log()) }) && !d.unsure {
			break
		}
	}
	d.climbing.Wait()
	for _, s := range sources {
		for _, e := range s.endpoints {
			if !e.left {
				<-e.done
			}
		}
	}
	sources[0].recordView()
	for _, s := range sources {
		s.recordSettings(nil)
	}
	d.finishChecks(ctx, sources)
	proofs := make([]*Proof, len(sources))
	for i, s := range sources {
		proofs[i] = s.proof
	}
	return d.result(d.log(ctx, sources), proofs)
}

// pullByDigest walks the sources that serve content and resolve no tag: the
// runtime asks them for manifests and blobs as soon as another has resolved it.
func (d *imageRun) pullByDigest(ctx context.Context, sources []*source, digest string) {
	for _, s := range sources {
		if !s.pullOnly {
			continue
		}
		s.pullOnly, s.skipped = false, ""
		s.ref.Digest = digest
		s.walk(ctx)
	}
}

func (d *imageRun) setIdentity(info tlsauth.CredentialInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = info.Source
	if info.Username != "" {
		d.identity += " (user " + info.Username + ")"
	}
}

// imageRef is the image as the runtime reads it, before anything was asked.
func (d *imageRun) imageRef() ImageRef {
	return ImageRef{
		Given: d.ref.Given, Reference: d.ref.String(), Registry: d.ref.Registry, Repository: d.ref.Repository,
		Tag: d.ref.Tag, Digest: d.ref.Digest, Platform: d.platform.String(),
	}
}

func (d *imageRun) countManifest() {
	d.mu.Lock()
	d.manifests++
	d.mu.Unlock()
}

func (d *imageRun) manifestsSent() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manifests
}
