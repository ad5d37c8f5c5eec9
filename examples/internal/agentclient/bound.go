package agentclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// bounds limit a JSON document before it becomes values: three bytes of a list are
// hundreds in memory.
type bounds struct {
	elements int // of all lists together
	objects  int
	keys     int // of all objects together
}

// What a request, a pull secret and a result may hold. An ordinary result has some hundred objects.
var (
	requestBounds = bounds{elements: 2 * (MaxImages + MaxEvents + MaxPullSecrets), objects: 2 * (MaxEvents + MaxPullSecrets), keys: 16 << 10}
	secretBounds  = bounds{elements: MaxAuths, objects: MaxAuths + 2, keys: 8 * MaxAuths}
	resultBounds  = bounds{elements: maxObjects, objects: maxObjects, keys: 10 * maxObjects}
)

// check returns an error if a valid document holds more than b allows. It allocates
// nothing.
func (b bounds) check(doc []byte) error {
	var commas, lists, objects, keys int
	inString := false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == ',':
			commas++
		case c == '[':
			lists++
		case c == '{':
			objects++
		case c == ':':
			keys++
		}
	}
	// A list of n has n-1 commas and one bracket; an object of n keys has n-1 commas,
	// one brace and n colons, so that it falls out of the sum.
	switch elements := commas + lists + objects - keys; {
	case objects > b.objects:
		return fmt.Errorf("more than %d objects", b.objects)
	case elements > b.elements:
		return fmt.Errorf("more than %d elements of lists", b.elements)
	case keys > b.keys:
		return fmt.Errorf("more than %d keys", b.keys)
	}
	return nil
}

// DecodeRequest reads the body of POST /v1/diagnose. It refuses fields that it does
// not know: half a question is another question. The caller bounds the bytes.
func DecodeRequest(body io.Reader) (Request, error) {
	dec := json.NewDecoder(body)
	var doc json.RawMessage
	if err := dec.Decode(&doc); err != nil {
		return Request{}, err
	}
	if _, err := dec.Token(); err == nil {
		return Request{}, errors.New("more follows the question")
	} else if err != io.EOF {
		return Request{}, err
	}
	if err := requestBounds.check(doc); err != nil {
		return Request{}, err
	}
	var req Request
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	err := strict.Decode(&req)
	return req, err
}
