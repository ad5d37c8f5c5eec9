package registry

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxEntries bounds every list of a manifest, an index and a token. Real ones have some
// hundred entries; 4 MiB of "0," decoded at once would take more than a hundred times their
// size.
const maxEntries = 4096

// entries decodes a JSON array one element at a time and keeps at most so many of them;
// more reports whether there are others. The elements after those are not looked at. A list
// that is absent or null has none.
func entries[T any](list json.RawMessage, most int) (kept []T, more bool, err error) {
	if !present(list) {
		return nil, false, nil
	}
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, false, errors.New("want a list")
	}
	for dec.More() {
		if len(kept) == most {
			return kept, true, nil
		}
		var v T
		if err := dec.Decode(&v); err != nil {
			return nil, false, err
		}
		kept = append(kept, v)
	}
	_, err = dec.Token() // the end of the list
	return kept, false, err
}

// present reports whether a key was there with a value other than null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
