package classify

// podSpec and podStatus are the parts of a pod that speak of images.
type podSpec struct {
	NodeName       string         `json:"nodeName"`
	Containers     []podContainer `json:"containers"`
	InitContainers []podContainer `json:"initContainers"`
}

type podContainer struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type podStatus struct {
	ContainerStatuses          []containerStatus `json:"containerStatuses"`
	InitContainerStatuses      []containerStatus `json:"initContainerStatuses"`
	EphemeralContainerStatuses []containerStatus `json:"ephemeralContainerStatuses"`
}

type containerStatus struct {
	Name    string `json:"name"`
	Image   string `json:"image"`
	ImageID string `json:"imageID"`
	State   struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running *struct {
			StartedAt *jsonTime `json:"startedAt"`
		} `json:"running"`
	} `json:"state"`
}

// appendContainers adds a record for each container of a pod that waits for a
// named reason or runs.
func (d *eventDocument) appendContainers(records []EventRecord) []EventRecord {
	for _, list := range [...][]containerStatus{d.Status.InitContainerStatuses, d.Status.ContainerStatuses, d.Status.EphemeralContainerStatuses} {
		for i := range list {
			if len(records) >= maxEventRecords {
				return records
			}
			c := &list[i]
			r := EventRecord{
				Status: true, Namespace: boundName(d.Metadata.Namespace), Pod: boundName(d.Metadata.Name), Node: boundName(d.Spec.NodeName),
				// What was asked for. The status may name another reference to
				// the same content.
				Image: cleanImage(orElse(d.Spec.image(c.Name), c.Image)), ImageID: cleanImage(c.ImageID),
			}
			switch {
			case c.State.Waiting != nil:
				r.Reason, r.Message = boundName(c.State.Waiting.Reason), boundMessage(c.State.Waiting.Message)
				if r.Reason == "ContainerCreating" || r.Reason == "PodInitializing" || r.Reason == "CrashLoopBackOff" {
					continue // says nothing of an image
				}
			case c.State.Running != nil:
				r.Reason, r.Time = "Running", firstTime(c.State.Running.StartedAt)
			default:
				continue
			}
			records = append(records, r)
		}
	}
	return records
}

// image returns what the pod asked for in a container.
func (s *podSpec) image(container string) string {
	for _, list := range [...][]podContainer{s.Containers, s.InitContainers} {
		for _, c := range list {
			if c.Name == container {
				return c.Image
			}
		}
	}
	return ""
}
