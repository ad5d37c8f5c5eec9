package reach

import (
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// azureRoute is one entry of `az network nic show-effective-route-table`.
type azureRoute struct {
	AddressPrefix    oneOrMany `json:"addressPrefix"`
	Name             string    `json:"name"`
	NextHopIPAddress oneOrMany `json:"nextHopIpAddress"`
	NextHopType      string    `json:"nextHopType"`
	Source           string    `json:"source"`
	State            string    `json:"state"`
}

// ParseAzureRoutes reads what `az network nic show-effective-route-table -o
// json` prints: the routes that really apply to a network interface. An entry
// with several next hops keeps the first. Errors name the entry and quote little
// of it.
func ParseAzureRoutes(r io.Reader) ([]TableRoute, error) {
	list, err := decodeList[azureRoute](r)
	if err != nil {
		return nil, fmt.Errorf("reach: Azure effective routes: %w", err)
	}
	var routes []TableRoute
	var count counted
	for i, entry := range list {
		fail := func(err error) ([]TableRoute, error) {
			return nil, fmt.Errorf("reach: Azure effective routes: entry %d: %w", i+1, err)
		}
		if len(entry.AddressPrefix) == 0 || entry.NextHopType == "" {
			return fail(fmt.Errorf("no addressPrefix or no nextHopType: this is no effective route"))
		}
		if err := count.add(len(entry.AddressPrefix)); err != nil {
			return fail(err)
		}
		route := TableRoute{
			NextHop: NextHop{Kind: azureHop(entry.NextHopType)},
			Name:    clip(entry.Name), Source: azureSource(entry.Source),
			Inactive: entry.State != "" && !strings.EqualFold(entry.State, "Active"),
		}
		if len(entry.NextHopIPAddress) > 0 {
			if route.Address, err = parseHop(entry.NextHopIPAddress[0]); err != nil {
				return fail(err)
			}
		}
		for _, text := range entry.AddressPrefix {
			if route.Prefix, err = parsePrefix(text); err != nil {
				return fail(err)
			}
			routes = append(routes, route)
		}
	}
	return routes, nil
}

func azureHop(typ string) string {
	switch strings.ToLower(typ) {
	case "none":
		return hopNone
	case "internet":
		return hopInternet
	case "vnetlocal":
		return hopLocal
	case "vnetpeering", "vnetglobalpeering", "globalvnetpeering":
		return hopPeering
	case "virtualnetworkgateway":
		return hopGateway
	case "virtualappliance":
		return hopAppliance
	case "virtualnetworkserviceendpoint", "interfaceendpoint":
		return hopEndpoint
	}
	return hopOther
}

func azureSource(source string) string {
	switch strings.ToLower(source) {
	case "user":
		return sourceUser
	case "virtualnetworkgateway":
		return sourceBGP
	case "default":
		return sourceDefault
	}
	return clip(strings.ToLower(source))
}

// azureGroup is one entry of `az network nic list-effective-nsg`.
type azureGroup struct {
	Association struct {
		NetworkInterface *azureID `json:"networkInterface"`
		Subnet           *azureID `json:"subnet"`
	} `json:"association"`
	Group *azureID    `json:"networkSecurityGroup"`
	Rules []azureRule `json:"effectiveSecurityRules"`
}

type azureID struct {
	ID string `json:"id"`
}

type azureRule struct {
	Access       string    `json:"access"`
	Direction    string    `json:"direction"`
	Name         string    `json:"name"`
	Priority     int       `json:"priority"`
	Protocol     string    `json:"protocol"`
	Source       string    `json:"sourceAddressPrefix"`
	Sources      oneOrMany `json:"sourceAddressPrefixes"`
	SourceWide   oneOrMany `json:"expandedSourceAddressPrefix"`
	Destination  string    `json:"destinationAddressPrefix"`
	Destinations oneOrMany `json:"destinationAddressPrefixes"`
	DestWide     oneOrMany `json:"expandedDestinationAddressPrefix"`
	Port         string    `json:"destinationPortRange"`
	Ports        oneOrMany `json:"destinationPortRanges"`
}

// ParseAzureRules reads what `az network nic list-effective-nsg -o json` prints.
// Each network security group becomes a group of rules, with its association
// (subnet or interface) in its name. A service tag that comes without its
// prefixes becomes a tag of the rule, so that a decision that depends on it is
// open. Rules for other protocols than TCP and UDP are left out; a rule that
// asks for source ports counts as if it did not.
func ParseAzureRules(r io.Reader) ([]Rule, error) {
	list, err := decodeList[azureGroup](r)
	if err != nil {
		return nil, fmt.Errorf("reach: Azure effective rules: %w", err)
	}
	var rules []Rule
	var count counted
	for i, entry := range list {
		if entry.Rules == nil {
			return nil, fmt.Errorf("reach: Azure effective rules: entry %d has no effectiveSecurityRules", i+1)
		}
		group := entry.name(i)
		for _, in := range entry.Rules {
			rule, ok, err := in.rule(group)
			if err == nil {
				err = count.add(1 + len(rule.Sources) + len(rule.Destinations))
			}
			if err != nil {
				return nil, fmt.Errorf("reach: Azure effective rules: entry %d, rule %q: %w", i+1, clip(in.Name), err)
			}
			if ok {
				rules = append(rules, rule)
			}
		}
	}
	return rules, nil
}

func (g azureGroup) name(i int) string {
	name := strconv.Itoa(i + 1)
	if g.Group != nil && g.Group.ID != "" {
		name = clip(path.Base(g.Group.ID))
	}
	switch {
	case g.Association.Subnet != nil:
		return name + " on subnet " + clip(path.Base(g.Association.Subnet.ID))
	case g.Association.NetworkInterface != nil:
		return name + " on interface " + clip(path.Base(g.Association.NetworkInterface.ID))
	}
	return name
}

// rule translates one rule; false for one that is not about TCP or UDP.
func (in azureRule) rule(group string) (Rule, bool, error) {
	rule := Rule{Group: group, Name: clip(in.Name), Priority: in.Priority}
	switch strings.ToLower(in.Access) {
	case "allow":
		rule.Allow = true
	case "deny":
	default:
		return Rule{}, false, fmt.Errorf("access %q is neither Allow nor Deny", clip(in.Access))
	}
	switch strings.ToLower(in.Direction) {
	case "inbound":
		rule.Direction = inbound
	case "outbound":
		rule.Direction = outbound
	default:
		return Rule{}, false, fmt.Errorf("direction %q is neither inbound nor Outbound", clip(in.Direction))
	}
	switch strings.ToLower(in.Protocol) {
	case "all", "*", "any", "":
	case "tcp", "6":
		rule.Protocol = "tcp"
	case "udp", "17":
		rule.Protocol = "udp"
	default:
		return Rule{}, false, nil
	}
	var err error
	if rule.Sources, rule.SourceTags, err = azureSide(in.SourceWide, in.Sources, in.Source); err != nil {
		return Rule{}, false, err
	}
	if rule.Destinations, rule.DestinationTags, err = azureSide(in.DestWide, in.Destinations, in.Destination); err != nil {
		return Rule{}, false, err
	}
	ports := in.Ports
	if len(ports) == 0 && in.Port != "" {
		ports = oneOrMany{in.Port}
	}
	rule.Ports, err = parsePorts(ports)
	return rule, true, err
}

// azureSide reads one end of a rule: the expanded prefixes of a service tag
// where they are given, else the prefixes, of which a word that is none is a
// tag. nil prefixes and no tag = any.
func azureSide(wide, many oneOrMany, one string) (prefixes []netip.Prefix, tags []string, err error) {
	list := wide
	if len(list) == 0 {
		list = many
	}
	if len(list) == 0 && one != "" {
		list = oneOrMany{one}
	}
	for _, text := range list {
		switch {
		case text == "*" || strings.EqualFold(text, "any"):
			return nil, nil, nil
		case text != "" && text[0] >= 'A' && text[0] <= 'Z':
			tags = append(tags, clip(text))
			continue
		}
		p, err := parsePrefix(text)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(prefixes, p) { // Azure prints 0.0.0.0/0 twice
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, tags, nil
}

// parsePorts reads "443", "0-65535", "*"; nil = any.
func parsePorts(list []string) ([]PortRange, error) {
	var ports []PortRange
	for _, text := range list {
		if text == "*" || text == "0-65535" {
			return nil, nil
		}
		low, high, both := strings.Cut(text, "-")
		if !both {
			high = low
		}
		from, err := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
		to, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
		if err != nil || err2 != nil || from > to {
			return nil, fmt.Errorf("port range %q", clip(text))
		}
		ports = append(ports, PortRange{uint16(from), uint16(to)})
	}
	return ports, nil
}
