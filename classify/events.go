package classify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseEvents reads what a cluster reported, in the form in which people have
// it: the output of "kubectl get events -o json" (v1 or events.k8s.io, a list,
// one event, or several documents) and of "kubectl get pods -o json", the table
// of "kubectl describe pod" or "kubectl get events", quoted or with borders, or
// plain lines of a log, one record each. A pod gives a record for each container
// that waits or runs: its status is what holds now, while events go stale.
//
// Input larger than 64 MiB is an error, and so is input that is none of these;
// empty input has no records. At most 10,000 records come back, the first ones. Messages stay as printed and
// may hold signed URLs: pass them to [Text] or [Event], and through [Redact]
// before printing. A table has ages and no times, so Time is zero there; Node is
// empty where the input does not name it.
func ParseEvents(r io.Reader) ([]EventRecord, error) {
	if r == nil {
		return nil, errors.New("events: want a reader, got nil")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxEventsInput+1))
	if err != nil {
		return nil, fmt.Errorf("events: reading the input: %w", err)
	}
	if len(data) > maxEventsInput {
		return nil, fmt.Errorf("events: want at most %d MiB, got more", maxEventsInput>>20)
	}
	data = bytes.TrimSpace(decodeUTF16(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	switch {
	case len(data) == 0:
		return []EventRecord{}, nil
	case bytes.Count(data, []byte{0}) > len(data)/8:
		return nil, errors.New("events: want JSON or text, got binary data")
	case data[0] == '{' || (data[0] == '[' && json.Valid(data)):
		return parseEventJSON(data)
	case bytes.HasPrefix(data, []byte("apiVersion:")) || bytes.HasPrefix(data, []byte("items:")) || bytes.HasPrefix(data, []byte("---\napiVersion:")):
		return nil, errors.New("events: want JSON or text, got YAML; print the events with -o json")
	}
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	// A log may hold a few NULs where a file was cut or preallocated.
	return parseEventText(string(bytes.ReplaceAll(data, []byte{0}, []byte(" ")))), nil
}

// decodeUTF16 turns what a Windows shell writes into a file into UTF-8.
func decodeUTF16(data []byte) []byte {
	if len(data) < 2 {
		return data
	}
	var order binary.ByteOrder
	switch {
	case data[0] == 0xff && data[1] == 0xfe:
		order = binary.LittleEndian
	case data[0] == 0xfe && data[1] == 0xff:
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// eventDocument is a list or one event; the fields of v1 and of events.k8s.io
// stand side by side.
type eventDocument struct {
	Kind  string          `json:"kind"`
	Items json.RawMessage `json:"items"`

	Metadata struct {
		Name              string    `json:"name"`
		Namespace         string    `json:"namespace"`
		CreationTimestamp *jsonTime `json:"creationTimestamp"`
	} `json:"metadata"`
	Reason              string      `json:"reason"`
	Message             string      `json:"message"` // v1
	Note                string      `json:"note"`    // events.k8s.io
	Count               int         `json:"count"`
	DeprecatedCount     int         `json:"deprecatedCount"`
	FirstTimestamp      *jsonTime   `json:"firstTimestamp"`
	LastTimestamp       *jsonTime   `json:"lastTimestamp"`
	DeprecatedFirst     *jsonTime   `json:"deprecatedFirstTimestamp"`
	DeprecatedLast      *jsonTime   `json:"deprecatedLastTimestamp"`
	EventTime           *jsonTime   `json:"eventTime"`
	InvolvedObject      eventObject `json:"involvedObject"`
	Regarding           eventObject `json:"regarding"`
	Source              eventObject `json:"source"`
	DeprecatedSource    eventObject `json:"deprecatedSource"`
	ReportingComponent  string      `json:"reportingComponent"`
	ReportingController string      `json:"reportingController"`
	ReportingInstance   string      `json:"reportingInstance"`
	Series              struct {
		Count            int       `json:"count"`
		LastObservedTime *jsonTime `json:"lastObservedTime"`
	} `json:"series"`

	Spec struct {
		NodeName       string         `json:"nodeName"`
		Containers     []podContainer `json:"containers"`
		InitContainers []podContainer `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses          []podContainer `json:"containerStatuses"`
		InitContainerStatuses      []podContainer `json:"initContainerStatuses"`
		EphemeralContainerStatuses []podContainer `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

// eventObject is what an event is about, or its source.
type eventObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Component string `json:"component"`
	Host      string `json:"host"`
}

// jsonTime is a time that may be missing or odd: one bad time stamp must not
// hide a whole list of events.
type jsonTime struct{ time.Time }

// UnmarshalJSON reads RFC 3339 and leaves anything else zero.
func (t *jsonTime) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		if v, err := time.Parse(time.RFC3339, s); err == nil {
			t.Time = v
		}
	}
	return nil
}

// parseEventJSON reads one document after the other, and the items of a list one
// by one: the input may hold more of them than memory should.
func parseEventJSON(data []byte) ([]EventRecord, error) {
	records := []EventRecord{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for len(records) < maxEventRecords {
		if data[0] == '[' {
			return appendItems(records, data, "")
		}
		var d eventDocument
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, jsonError(err, decoder.InputOffset())
		}
		if records, err = appendDocument(records, &d); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func jsonError(err error, offset int64) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("events: want whole JSON, got one cut off inside a value that begins after byte %d", offset)
	case errors.As(err, &wrongType):
		return fmt.Errorf("events: want an event list, got %s in field %q", wrongType.Value, wrongType.Field)
	case errors.As(err, &syntax):
		return fmt.Errorf("events: want valid JSON, got an error at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("events: want valid JSON, got an error after byte %d: %w", offset, err)
}

// appendDocument adds the events of one document.
func appendDocument(records []EventRecord, d *eventDocument) ([]EventRecord, error) {
	switch {
	case d.Kind == "Event":
		return append(records, d.record()), nil
	case d.Kind == "Pod":
		return d.appendContainers(records), nil
	case !strings.HasSuffix(d.Kind, "List"):
		return nil, wrongKind(d)
	case len(d.Items) == 0 || string(d.Items) == "null":
		return records, nil
	}
	return appendItems(records, d.Items, d.Kind)
}

// appendItems adds the events of a list; other objects in it are passed over.
func appendItems(records []EventRecord, list []byte, listKind string) ([]EventRecord, error) {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return nil, errors.New("events: want an event list, got items that are no array")
	}
	var other *eventDocument
	seen := false
	for decoder.More() && len(records) < maxEventRecords {
		var item eventDocument
		if err := decoder.Decode(&item); err != nil {
			return nil, jsonError(err, decoder.InputOffset())
		}
		// A typed list leaves the kind out of its items.
		switch {
		case item.Kind == "Event" || (item.Kind == "" && listKind == "EventList"):
			records = append(records, item.record())
			seen = true
		case item.Kind == "Pod" || (item.Kind == "" && listKind == "PodList"):
			records = item.appendContainers(records)
			seen = true
		case other == nil:
			other = &item
		}
	}
	if !seen && other != nil {
		return nil, wrongKind(other)
	}
	return records, nil
}

func wrongKind(d *eventDocument) error {
	return fmt.Errorf("events: want an Event, a Pod or a List of them, got kind %q", Redact(d.Kind, 64))
}

func (d *eventDocument) record() EventRecord {
	object := d.InvolvedObject
	if object == (eventObject{}) {
		object = d.Regarding
	}
	source := d.Source
	if source == (eventObject{}) {
		source = d.DeprecatedSource
	}
	r := EventRecord{
		Time:      firstTime(d.Series.LastObservedTime, d.LastTimestamp, d.DeprecatedLast, d.EventTime, d.FirstTimestamp, d.Metadata.CreationTimestamp),
		First:     firstTime(d.FirstTimestamp, d.DeprecatedFirst),
		Count:     max(d.Series.Count, d.Count, d.DeprecatedCount, 0),
		Reason:    boundName(d.Reason),
		Message:   boundMessage(orElse(d.Message, d.Note)),
		Namespace: boundName(orElse(object.Namespace, d.Metadata.Namespace)),
		Node:      boundName(source.Host),
	}
	if r.Node == "" && (d.ReportingComponent == "kubelet" || d.ReportingController == "kubelet") {
		r.Node = boundName(d.ReportingInstance)
	}
	switch object.Kind {
	case "Pod":
		r.Pod = boundName(object.Name)
	case "Node":
		r.Node = orElse(r.Node, boundName(object.Name))
	}
	r.Image = imageIn(clean(r.Message))
	return r
}

func firstTime(times ...*jsonTime) time.Time {
	for _, t := range times {
		if t != nil && !t.IsZero() {
			return t.Time
		}
	}
	return time.Time{}
}

// podContainer is a container of a pod, as it was asked for or as it stands.
type podContainer struct {
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
	asked := map[string]string{} // container -> image; the status may name another reference to the same content
	for _, c := range slices.Concat(d.Spec.InitContainers, d.Spec.Containers) {
		asked[c.Name] = c.Image
	}
	for _, c := range slices.Concat(d.Status.InitContainerStatuses, d.Status.ContainerStatuses, d.Status.EphemeralContainerStatuses) {
		if len(records) >= maxEventRecords {
			break
		}
		r := EventRecord{
			Status: true, Namespace: boundName(d.Metadata.Namespace), Pod: boundName(d.Metadata.Name), Node: boundName(d.Spec.NodeName),
			Image: cleanImage(orElse(asked[c.Name], c.Image)), ImageID: cleanImage(c.ImageID),
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
	return records
}
