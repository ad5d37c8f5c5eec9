package pullwalk

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// atOnce is how many images that ask the same registries are walked at the same
// time. It bounds the burst that a registry sees, and not how many images there
// are: one that hangs holds up nobody who asks another.
const atOnce = 8

// DiagnoseAll diagnoses many images from one node and does once what is the same
// for all: the node's files are read once, and each host is looked up, connected
// to and verified once, however many images lead there. Connections are used
// again. What belongs to one image is asked for each: its manifests, its blobs, its
// Checks, and its tokens, which are never used for another repository. A host that is
// broken is therefore judged once and stands, with its whole ladder, in the
// result of every image that needs it: each Result is complete in itself and says
// what [Diagnose] would say alone.
//
// Results are in the order of images. An image that is named twice is diagnosed
// once, and both places hold the same Result; results share parts anyway, so that
// none should be changed. No images give no results.
//
// Images that ask the same registries are walked eight at a time, others do not
// wait for them; Options.Concurrency is per image. Options.Budget is for the whole
// call: with many images, or with Complete, allow more than the default. What it
// leaves untried is inconclusive. Keychain, Node and AllowAddr are used by several
// images at once, and so must be safe for that. OnStep is told of a shared step
// once for each image, see [Step].Image. The sandbox image is the node's: it is
// walked once, and stands in every result. Started and ElapsedMS count from the
// beginning of the call.
//
// The error is as of [Diagnose]. One senseless image refuses the whole call before
// the first packet; the error names it. When ctx ends, every image has what is
// known of it within 250 ms.
func DiagnoseAll(ctx context.Context, images []string, opts *Options) ([]*Result, error) {
	var distinct []string
	place := map[string]int{}
	for _, image := range images {
		if _, known := place[image]; !known {
			place[image] = len(distinct)
			distinct = append(distinct, image)
		}
	}
	d, err := newDiagnosis(distinct, opts)
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(images))
	if len(images) == 0 {
		return results, nil
	}
	each, err := d.run(ctx)
	if err != nil {
		return nil, err
	}
	for i, image := range images {
		results[i] = each[place[image]]
	}
	return results, nil
}

// company are the images for which the runtime asks the same registries, in the
// same way.
type company struct {
	pulls []int
	// seen is what their TLS checks learn from each other. Other companies' hosts
	// are not in their results, and so explain nothing there.
	seen tlsauth.Seen
}

// companies tells the images apart by whom they ask.
func (d *diagnosis) companies(all []configured) []*company {
	var out []*company
	byKey := map[string]*company{}
	for i, c := range all {
		key := keyOf(c.sources)
		if byKey[key] == nil {
			byKey[key] = &company{}
			out = append(out, byKey[key])
		}
		byKey[key].pulls = append(byKey[key].pulls, i)
		d.pulls[i].company = byKey[key]
	}
	return out
}

// keyOf is equal for images whose requests the same files shape: header fields may be
// secrets, and so are told apart by where they stand.
func keyOf(sources []noderuntime.Source) string {
	var key strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&key, "%s %x %q\n", s.Base, tlsSettingsOf(s).key, s.File)
	}
	return key.String()
}

// together runs every pull. When ctx ends nobody waits for a turn any more: what
// is left says so at once.
func (d *diagnosis) together(ctx context.Context, all []configured, run func(i int)) {
	var wg sync.WaitGroup
	for _, c := range d.companies(all) {
		wg.Go(func() {
			turns := make(chan struct{}, atOnce)
			for _, i := range c.pulls {
				select {
				case turns <- struct{}{}:
					wg.Go(func() {
						run(i)
						<-turns
					})
				case <-ctx.Done():
					wg.Go(func() { run(i) })
				}
			}
		})
	}
	wg.Wait()
}
