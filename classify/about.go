package classify

// SameImage says whether two references name the same image: registry,
// repository, and tag or digest, with what a short reference leaves to docker's
// defaults written out. A tag and a digest are never the same.
func SameImage(a, b string) bool { return canonicalImage(a) == canonicalImage(b) }

// EventsAbout returns copies of the events that tell of a pull of one of images,
// in the order of time and by the rules of [Timeline]: an event without an image
// belongs to the one that its pod was last pulling, and one that no image can be
// found for is kept, since it may be about any. Image and Node are filled in
// where other events of the same pod show them. No images = every event about
// some pull.
func EventsAbout(events []EventRecord, images ...string) []EventRecord {
	b := newStoryBuilder(events)
	var out []EventRecord
	for _, i := range b.order {
		e := events[i]
		r, ok := reads(&e)
		if !ok {
			continue
		}
		image, known := b.imageOfEvent(&e, r)
		if !known || image != "" && len(images) > 0 && !isOneOf(image, images) {
			continue
		}
		e.Image, e.Node = image, orElse(e.Node, b.nodeOf[podKey(&e)])
		out = append(out, e)
	}
	return out
}

func isOneOf(image string, images []string) bool {
	for _, other := range images {
		if SameImage(image, other) {
			return true
		}
	}
	return false
}
