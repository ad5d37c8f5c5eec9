package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// image is one image that is walked.
type image struct {
	*call
	ref      registry.Reference
	group    *group
	sandbox  *sandboxFiles           // nil = an image that was asked for
	plan     *tlsauth.CredentialPlan // what a kubelet would offer, and why; nil = not known
	unsure   bool                    // it is not known whether the runtime's configuration is in force
	unwaited sync.WaitGroup          // what the walk started and did not wait for
	checking sync.WaitGroup          // the caller's own checks
	over     chan struct{}           // closed when all but those has ended
}

func (c *call) newImage(ref registry.Reference) *image {
	return &image{call: c, ref: ref, over: make(chan struct{})}
}

// run walks the sources in the runtime's order.
func (c *image) run(ctx context.Context, x configured) Image {
	var sources []*source
	for _, s := range x.sources {
		sources = append(sources, c.newSource(s))
	}
	usable := sources[0].judgeSettings(x.findings, x.err)
	c.unsure = slices.ContainsFunc(x.findings, func(f classify.Finding) bool {
		return f.Cause == classify.NodeRuntimeConfigIgnored && f.Certainty == classify.CertaintyPossible
	})
	if c.sandbox == nil { // the image's own walk does so
		sources[0].resolvers(ctx)
	}
	last := sources[len(sources)-1]
	for _, t := range c.opts.Also {
		last.run.Host(ctx, t)
	}
	c.planCredentials(ctx, last)
	c.walk(ctx, sources, usable)
	c.unwaited.Wait()
	for _, s := range sources {
		s.run.Wait()
		s.wait()
	}
	sources[0].recordPanics()
	for _, s := range sources {
		s.recordSettings(nil)
	}
	c.finishChecks(ctx, sources)
	return c.seen(ctx, sources)
}

func (c *image) walk(ctx context.Context, sources []*source, usable bool) {
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
		if s.run.Digest != "" {
			c.pullByDigest(ctx, sources, s.run.Digest)
		}
		if slices.ContainsFunc(sources, func(s *source) bool { return judge.Serves(s.log()) }) && !c.unsure {
			break
		}
	}
}

// pullByDigest walks the sources that serve content and resolve no tag: the runtime asks
// them for manifests and blobs as soon as another has resolved it.
func (c *image) pullByDigest(ctx context.Context, sources []*source, digest string) {
	for _, s := range sources {
		if !s.pullOnly {
			continue
		}
		s.pullOnly, s.skipped = false, ""
		s.run.Requests.Reference.Digest = digest
		s.walk(ctx)
	}
}

// seen is called when nothing of the image runs any more.
func (c *image) seen(ctx context.Context, sources []*source) Image {
	out := Image{Log: pull.Log{Unsure: c.unsure}}
	if ctx.Err() != nil {
		out.Log.Ended = pull.EndOf(ctx)
	}
	for _, s := range sources {
		out.Log.Sources = append(out.Log.Sources, s.log())
		out.Proofs = append(out.Proofs, s.proof())
		out.ManifestRequests += s.run.ManifestRequests()
		if s.run.Info.Source != "" {
			out.Identity = s.run.Info
		}
	}
	return out
}
