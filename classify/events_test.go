package classify_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

const coreEvent = `{"apiVersion":"v1","kind":"Event","count":3,"reason":"Failed","type":"Warning",
 "firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T03:14:05Z","eventTime":null,
 "involvedObject":{"kind":"Pod","namespace":"team","name":"app-0","fieldPath":"spec.containers{app}"},
 "metadata":{"name":"app-0.1","namespace":"team","creationTimestamp":"2026-01-02T03:04:05Z"},
 "message":"Failed to pull image \"registry.corp.test/team/app:v1\": pull QPS exceeded",
 "source":{"component":"kubelet","host":"node1"},"reportingComponent":"kubelet","reportingInstance":"node1"}`

const newEvent = `{"apiVersion":"events.k8s.io/v1","kind":"Event","reason":"Failed","type":"Warning",
 "deprecatedCount":3,"deprecatedFirstTimestamp":"2026-01-02T03:04:05Z","deprecatedLastTimestamp":"2026-01-02T03:14:05Z","eventTime":null,
 "deprecatedSource":{"component":"kubelet","host":"node1"},
 "regarding":{"kind":"Pod","namespace":"team","name":"app-0"},"metadata":{"namespace":"team"},
 "note":"Failed to pull image \"registry.corp.test/team/app:v1\": pull QPS exceeded","reportingController":"kubelet","reportingInstance":"node1"}`

var wantRecord = classify.EventRecord{
	Time: time.Date(2026, 1, 2, 3, 14, 5, 0, time.UTC), Count: 3, Reason: "Failed", Namespace: "team", Pod: "app-0", Node: "node1",
	Message: `Failed to pull image "registry.corp.test/team/app:v1": pull QPS exceeded`, Image: "registry.corp.test/team/app:v1",
}

func TestParseEventsJSON(t *testing.T) {
	utf16le := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(coreEvent)) {
		utf16le = binary.LittleEndian.AppendUint16(utf16le, u)
	}
	for name, c := range map[string]struct {
		input string
		n     int
	}{
		"one event":           {coreEvent, 1},
		"events.k8s.io":       {newEvent, 1},
		"list":                {`{"apiVersion":"v1","kind":"List","items":[` + coreEvent + `,` + newEvent + `],"metadata":{}}`, 2},
		"items before kind":   {`{"items":[` + coreEvent + `],"kind":"EventList"}`, 1},
		"typed list":          {`{"kind":"EventList","items":[` + strings.Replace(coreEvent, `"kind":"Event",`, "", 1) + `]}`, 1},
		"other objects in it": {`{"kind":"List","items":[{"kind":"Pod"},` + coreEvent + `]}`, 1},
		"several documents":   {coreEvent + "\n" + newEvent, 2},
		"bare array":          {"[" + coreEvent + "]", 1},
		"byte order mark":     {"\xef\xbb\xbf" + coreEvent, 1},
		"UTF-16":              {string(utf16le), 1},
		"empty list":          {`{"kind":"List","items":[]}`, 0},
		"null list":           {`{"kind":"EventList","items":null}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			records, err := classify.ParseEvents(strings.NewReader(c.input))
			require.NoError(t, err)
			require.NotNil(t, records)
			require.Len(t, records, c.n)
			for _, r := range records {
				r.First = time.Time{}
				assert.Equal(t, wantRecord, r)
			}
		})
	}
}

func TestParseEventsJSONFields(t *testing.T) {
	records, err := classify.ParseEvents(strings.NewReader(`{"kind":"List","items":[
		{"kind":"Event","eventTime":"2026-01-02T03:04:05.678901Z","series":{"count":7,"lastObservedTime":"2026-01-02T04:00:00.000000Z"},"regarding":{"kind":"Node","name":"node2"},"note":"x","reportingController":"kubelet","reportingInstance":"node2"},
		{"kind":"Event","lastTimestamp":"yesterday","firstTimestamp":"2026-01-02T03:04:05Z","message":"y","reportingComponent":"default-scheduler","reportingInstance":"scheduler-0"}]}`))
	require.NoError(t, err)
	require.Len(t, records, 2)
	assert.Equal(t, 7, records[0].Count)
	assert.Equal(t, 4, records[0].Time.Hour())
	assert.Equal(t, "node2", records[0].Node)
	assert.Empty(t, records[0].Pod)
	assert.Equal(t, 3, records[1].Time.Hour(), "a bad time stamp is passed over")
	assert.Empty(t, records[1].Node, "the scheduler's instance is no node of the pull")
}

const described = `Name:             app-0
Namespace:        team
Node:             node1/10.20.0.9
Containers:
  app:
    Image:          registry.corp.test/team/app:v1
Events:
  Type     Reason     Age               From               Message
  ----     ------     ----              ----               -------
  Normal   Scheduled  80s               default-scheduler  Successfully assigned team/app-0 to node1
  Normal   Pulling    38s (x2 over 80s) kubelet            spec.containers{app}: Pulling image "registry.corp.test/team/app:v1"
  Warning  Failed     7s (x2 over 50s)  kubelet            Failed to pull image "registry.corp.test/team/app:v1": unexpected status from HEAD request to https://registry.corp.test/v2/team/app/manifests/v1: 403 Forbidden
denied: not for you
  Warning  Failed     7s                kubelet, node7     Error: ErrImagePull
  Normal   BackOff    5s                                   Back-off pulling image "registry.corp.test/team/app:v1"
`

func TestParseEventsTable(t *testing.T) {
	records, err := classify.ParseEvents(strings.NewReader(described))
	require.NoError(t, err)
	require.Len(t, records, 5)
	assert.Equal(t, classify.EventRecord{
		AgeMS: 80_000, Reason: "Scheduled", Message: "Successfully assigned team/app-0 to node1", Namespace: "team", Pod: "app-0",
	}, records[0])
	assert.Equal(t, classify.EventRecord{
		Count: 2, AgeMS: 38_000, FirstAgeMS: 80_000, Reason: "Pulling", Message: `Pulling image "registry.corp.test/team/app:v1"`, Namespace: "team", Pod: "app-0", Node: "node1",
		Image: "registry.corp.test/team/app:v1",
	}, records[1])
	assert.True(t, strings.HasSuffix(records[2].Message, "403 Forbidden\ndenied: not for you"))
	assert.Equal(t, classify.IdentityAccessDeniedOrMissing, classify.Event(records[2].Reason, records[2].Message).Best.Cause)
	assert.Equal(t, "node7", records[3].Node)
	assert.Equal(t, "BackOff", records[4].Reason)
	assert.Equal(t, "node1", records[4].Node, "no component: the pod's own node")
	for _, r := range records {
		assert.True(t, r.Time.IsZero())
	}

	// Pasted with the columns squeezed, and the other table that kubectl has.
	squeezed := "Type  Reason  Age  From  Message\nWarning  Failed  1m (x9 over 2m)  kubelet, node3  Error: ErrImagePull\n" +
		"Normal  BackOff  1m  Back-off pulling image \"registry.corp.test/x:1\"\n"
	records, err = classify.ParseEvents(strings.NewReader(squeezed))
	require.NoError(t, err)
	require.Len(t, records, 2)
	assert.Equal(t, classify.EventRecord{AgeMS: 60_000, FirstAgeMS: 120_000, Count: 9, Reason: "Failed", Message: "Error: ErrImagePull", Node: "node3"}, records[0])

	listed := "NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT      MESSAGE\n" +
		"team        2m38s       Warning   Failed    pod/app-2   Failed to pull image \"registry.corp.test/x:1\": pull QPS exceeded\n"
	records, err = classify.ParseEvents(strings.NewReader(listed))
	require.NoError(t, err)
	require.Len(t, records, 1)
	assert.Equal(t, "app-2", records[0].Pod)
	assert.Equal(t, "team", records[0].Namespace)
	assert.Equal(t, "registry.corp.test/x:1", records[0].Image)

	// Two pods in one file.
	records, err = classify.ParseEvents(strings.NewReader(described + "\n\n" + strings.NewReplacer("app-0", "app-1", "node1", "node2").Replace(described)))
	require.NoError(t, err)
	require.Len(t, records, 10)
	assert.Equal(t, "app-1", records[6].Pod)
	assert.Equal(t, "node2", records[6].Node)

	// A table without a row is an answer: nothing was reported.
	records, err = classify.ParseEvents(strings.NewReader("Events:\n  Type  Reason  Age  From  Message\n  ----  ------  ----  ----  -------\n"))
	require.NoError(t, err)
	assert.Empty(t, records)
}

func TestParseEventsLines(t *testing.T) {
	records, err := classify.ParseEvents(strings.NewReader("first line\r\n\n  Failed to pull image \"registry.corp.test/x:1\": pull QPS exceeded\n[not JSON\n"))
	require.NoError(t, err)
	require.Len(t, records, 3)
	assert.Equal(t, classify.EventRecord{Message: "first line"}, records[0])
	assert.Equal(t, "registry.corp.test/x:1", records[1].Image)
}

func TestParseEventsWrongInput(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{"\x7fELF\x00\x01", "binary"},
		{`{"kind":"Node","metadata":{}}`, `want an Event, a Pod or a List of them, got kind "Node"`},
		{`{"kind":"List","items":[{"kind":"Node"}]}`, `want an Event, a Pod or a List of them, got kind "Node"`},
		{`{"a":1}`, `got kind ""`},
		{`{"kind":"Event","reason":7}`, `got number in field "reason"`},
		{`{"kind":"List","items":{}}`, "got items that are no array"},
		{`{"kind":"Event","reason":`, "cut off"},
		{`{"kind":"Event",}`, "want valid JSON, got an error at byte"},
		{"apiVersion: v1\nkind: List\n", "YAML"},
	} {
		records, err := classify.ParseEvents(strings.NewReader(c.input))
		assert.Nil(t, records, c.input)
		assert.ErrorContains(t, err, c.want, c.input)
	}
	_, err := classify.ParseEvents(nil)
	assert.ErrorContains(t, err, "want a reader, got nil")
	_, err = classify.ParseEvents(iotest.ErrReader(errors.New("disk gone")))
	assert.ErrorContains(t, err, "disk gone")
}

func TestParseEventsEmptyInput(t *testing.T) {
	for _, input := range []string{"", " \n\t", `{"kind":"Pod","metadata":{}}`, `{"kind":"List","items":[{"kind":"Pod"}]}`, `{"kind":"PodList","items":[{}]}`, "[]"} {
		records, err := classify.ParseEvents(strings.NewReader(input))
		require.NoError(t, err, input)
		assert.NotNil(t, records, input)
		assert.Empty(t, records, input)
	}
}

const podStatus = `{"kind":"Pod","metadata":{"namespace":"team","name":"app-0"},
 "spec":{"nodeName":"node1","containers":[{"name":"app","image":"registry.corp.test/team/app:v1"},{"name":"side","image":"side:2"}],
  "initContainers":[{"name":"init","image":"registry.corp.test/team/init:v1"}]},
 "status":{"initContainerStatuses":[{"name":"init","image":"sha256:ab","imageID":"old.corp.test/team/init@` + digest + `","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}],
  "containerStatuses":[
   {"name":"app","image":"registry.corp.test/team/app:v1","imageID":"","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"registry.corp.test/team/app:v1\": ErrImagePull: pull QPS exceeded"}}},
   {"name":"side","image":"side:2","state":{"waiting":{"reason":"PodInitializing"}}},
   {"name":"gone","state":{"terminated":{"exitCode":1}}}]}}`

// The status is what holds now; events of the same pod may be old.
func TestParseEventsPod(t *testing.T) {
	for _, input := range []string{podStatus, `{"kind":"List","items":[` + podStatus + `]}`, `{"kind":"PodList","items":[` + strings.Replace(podStatus, `"kind":"Pod",`, "", 1) + `]}`} {
		records, err := classify.ParseEvents(strings.NewReader(input))
		require.NoError(t, err)
		require.Equal(t, []classify.EventRecord{
			{
				Status: true, Reason: "Running", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Namespace: "team", Pod: "app-0", Node: "node1",
				Image: "registry.corp.test/team/init:v1", ImageID: "old.corp.test/team/init@" + digest,
			},
			{
				Status: true, Reason: "ImagePullBackOff", Namespace: "team", Pod: "app-0", Node: "node1", Image: "registry.corp.test/team/app:v1",
				Message: `Back-off pulling image "registry.corp.test/team/app:v1": ErrImagePull: pull QPS exceeded`,
			},
		}, records)
		assert.Equal(t, classify.NodePullQPSExceeded, classify.Event(records[1].Reason, records[1].Message).Best.Cause)
	}
}

// The columns of very old clients, with tabs, and what mails and terminals put
// around a table.
func TestParseEventsTableForms(t *testing.T) {
	old := "Events:\n  FirstSeen\tLastSeen\tCount\tFrom\t\t\tSubObjectPath\tType\t\tReason\t\tMessage\n" +
		"  ---------\t--------\t-----\t----\t\t\t-------------\t--------\t------\t\t-------\n" +
		"  9m\t\t10s\t\t7\t{kubelet node-4}\t\t\t\tWarning\t\tFailed\t\tFailed to pull image \"registry.corp.test/x:1\": pull QPS exceeded\n"
	records, err := classify.ParseEvents(strings.NewReader(old))
	require.NoError(t, err)
	require.Len(t, records, 1)
	assert.Equal(t, classify.EventRecord{
		AgeMS: 10_000, FirstAgeMS: 540_000, Count: 7, Reason: "Failed", Node: "node-4", Image: "registry.corp.test/x:1",
		Message: `Failed to pull image "registry.corp.test/x:1": pull QPS exceeded`,
	}, records[0])

	// kubectl get events -o wide: the message is not the last column.
	message := `Failed to pull image "registry.corp.test/x:1": pull QPS exceeded`
	wide := "LAST SEEN   TYPE      REASON   OBJECT      SUBOBJECT              SOURCE           MESSAGE" + strings.Repeat(" ", len(message)-4) + "FIRST SEEN   COUNT   NAME\n" +
		"2m38s       Warning   Failed   pod/app-2   spec.containers{app}   kubelet, node5   " + message + "   9m           4       app-2.18a\n"
	records, err = classify.ParseEvents(strings.NewReader(wide))
	require.NoError(t, err)
	require.Len(t, records, 1)
	assert.Equal(t, classify.EventRecord{
		AgeMS: 158_000, FirstAgeMS: 540_000, Count: 4, Reason: "Failed", Pod: "app-2", Node: "node5", Image: "registry.corp.test/x:1", Message: message,
	}, records[0])

	records, err = classify.ParseEvents(strings.NewReader("Failed to pull image \"registry.corp.test/x:1\": pull QPS exceeded\x00\xff\n"))
	require.NoError(t, err)
	assert.Equal(t, classify.NodePullQPSExceeded, classify.Event("", records[0].Message).Best.Cause)

	// A window of 100 columns cut the lines, inside of words too.
	var narrow strings.Builder
	for line := range strings.Lines(described) {
		for line = strings.TrimRight(line, "\n"); len(line) > 100; line = line[100:] {
			narrow.WriteString(line[:100] + "\n")
		}
		narrow.WriteString(line + "\n")
	}
	records, err = classify.ParseEvents(strings.NewReader(narrow.String()))
	require.NoError(t, err)
	whole, err := classify.ParseEvents(strings.NewReader(described))
	require.NoError(t, err)
	assert.Equal(t, whole, records)

	var quoted, bordered strings.Builder
	for line := range strings.Lines(described) {
		line = strings.TrimRight(line, "\n")
		fmt.Fprintf(&quoted, "> %s\n", line)
		fmt.Fprintf(&bordered, "\u2502%s  \u2502\n", line)
	}
	plain, err := classify.ParseEvents(strings.NewReader(described))
	require.NoError(t, err)
	for _, input := range []string{quoted.String(), bordered.String(), "```\n" + described + "```\n", strings.ReplaceAll(described, "\n", "\r\n")} {
		records, err := classify.ParseEvents(strings.NewReader(input))
		require.NoError(t, err)
		assert.Equal(t, plain, records, input)
	}
}

func TestParseEventsIsBounded(t *testing.T) {
	_, err := classify.ParseEvents(io.LimitReader(zeros{}, 64<<20+1))
	assert.ErrorContains(t, err, "64 MiB")

	var list bytes.Buffer
	list.WriteString(`{"kind":"List","items":[`)
	for i := range 10_050 {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"kind":"Event","message":"%d"}`, i)
	}
	list.WriteString("]}")
	records, err := classify.ParseEvents(&list)
	require.NoError(t, err)
	assert.Len(t, records, 10_000)

	records, err = classify.ParseEvents(strings.NewReader(strings.Repeat("a line\n", 10_050)))
	require.NoError(t, err)
	assert.Len(t, records, 10_000)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func FuzzParseEvents(f *testing.F) {
	for _, s := range append(seeds, coreEvent, newEvent, described, `{"kind":"List","items":[`+coreEvent+`]}`, "[]", "[{}]", `{"kind":"EventList","items":[{}]}`,
		"Type  Reason  Message\nNormal  x  y\nz", "TYPE\tREASON\tMESSAGE\nNormal\tx\ty", "\xff\xfe{\x00", "{") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := classify.ParseEvents(bytes.NewReader(data))
		if (err == nil) != (records != nil) {
			t.Fatalf("records %v, error %v", records, err)
		}
		if len(records) > 10_000 {
			t.Fatal(len(records))
		}
		for _, r := range records {
			if r.Count < 0 || len(r.Message) > 3*64<<10 || len(r.Pod) > 256 || len(r.Image) > 512 {
				t.Fatalf("unbounded: %+v", r)
			}
		}
	})
}
