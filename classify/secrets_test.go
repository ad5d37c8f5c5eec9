package classify_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

var urlEndings = regexp.MustCompile(`(https?://[^\s"?:]+(?::\d+)?(?:/[^\s"?:]*)?)(\?[^\s":]*)?`)

// Whatever a text holds in the places where secrets stand, no field of a reading
// or of a story has it.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	const secret = "hunter2SECRET"
	for _, l := range labelledTexts(t) {
		for name, text := range map[string]string{
			"query":     urlEndings.ReplaceAllString(l.Text, "$1?X-Amz-Signature="+secret+"&sig="+secret),
			"user info": strings.NewReplacer("https://", "https://robot:"+secret+"@", "http://", "http://robot:"+secret+"@").Replace(l.Text),
			"header":    l.Text + " Authorization: Bearer " + secret + ", Authorization: Basic " + secret,
			"pairs":     l.Text + ` password=` + secret + ` {"token":"` + secret + `"} client_secret=` + secret,
			"before":    `token=` + secret + ` ` + l.Text,
		} {
			r := classify.Event(l.Reason, text)
			data, err := json.Marshal(r)
			require.NoError(t, err)
			assert.NotContains(t, string(data), secret, "%s: %s", name, text)
			data, err = json.Marshal(classify.Timeline([]classify.EventRecord{{Reason: l.Reason, Message: text, Node: "node1", Pod: "app-0"}}))
			require.NoError(t, err)
			assert.NotContains(t, string(data), secret, "%s: %s", name, text)
		}
	}
}
