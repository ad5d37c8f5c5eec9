package reach

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

const (
	// maxTableBytes: the largest table that a cloud gives has a few hundred
	// routes, the Internet's own in JSON some 200 MB, which nobody's node has.
	maxTableBytes = 16 << 20
	// maxTableEntries bounds the prefixes of all entries together.
	maxTableEntries = 200_000
)

var errTableTooLarge = fmt.Errorf("more than %d bytes", maxTableBytes)

// readTableInput reads an input whole, up to the limit.
func readTableInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, errors.New("no input")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxTableBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxTableBytes:
		return nil, errTableTooLarge
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // PowerShell writes one
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty input")
	}
	return data, nil
}

// decodeList decodes a JSON list, or an object whose field "value" is one, as
// the Azure CLI prints it.
func decodeList[T any](r io.Reader) ([]T, error) {
	data, err := readTableInput(r)
	if err != nil {
		return nil, err
	}
	var list []T
	if bytes.TrimSpace(data)[0] == '[' {
		err = json.Unmarshal(data, &list)
	} else {
		var object struct {
			Value *[]T `json:"value"`
		}
		if err = json.Unmarshal(data, &object); err == nil {
			if object.Value == nil {
				return nil, errors.New(`neither a list nor an object with a list "value"`)
			}
			list = *object.Value
		}
	}
	if err != nil {
		return nil, shortJSONError(err)
	}
	return list, nil
}

// shortJSONError keeps place and type of a mistake, and none of the input.
func shortJSONError(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON: mistake at byte %d", syntax.Offset)
	case errors.As(err, &typ):
		return fmt.Errorf("JSON of another shape: a %s in field %q", typ.Value, typ.Field)
	}
	return errors.New("no JSON that is understood")
}

// oneOrMany is a JSON string or a list of strings; null is none.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(o))
	}
	var one *string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*o = nil
	if one != nil && *one != "" {
		*o = oneOrMany{*one}
	}
	return nil
}

// parsePrefix reads "10.20.0.0/16" or a bare address. An IPv4 prefix in IPv6
// form, a zone, and set host bits are mistakes that would match the wrong
// addresses, except the last, which every router masks.
func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is no prefix", clip(s))
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no prefix", clip(s))
	}
	return p.Masked(), nil
}

func parseHop(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("next hop %q is no address", clip(s))
	}
	return addr.Unmap().WithZone(""), nil
}

// clip bounds a quoted part of an input.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// counted bounds the number of entries.
type counted int

func (c *counted) add(n int) error {
	if *c += counted(n); *c > maxTableEntries {
		return fmt.Errorf("more than %d prefixes", maxTableEntries)
	}
	return nil
}
