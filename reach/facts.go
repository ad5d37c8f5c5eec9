package reach

// The keys of facts that only this package knows, beside those of classify.
const (
	FactICMP     = "icmp"      // kind, numbers and sender of an ICMP answer
	FactHops     = "hops"      // the routers that answered, nearest first
	FactLastHop  = "last-hop"  // the last of them
	FactOther    = "other"     // a sign of life of the same address on another door
	FactRate     = "rate"      // "3/5": connects that held, of those tried
	FactSize     = "packet"    // largest packet that passed, in bytes
	FactPrefix   = "prefix"    // prefix of the route or network that decides
	FactRule     = "rule"      // security rule that decides
	FactNextHop  = "next-hop"  // kind and address of the next hop in a given table
	FactIntended = "intended"  // next hop that was declared
	FactUse      = "use"       // "262144/262144": in use, of what there is
	FactSYNs     = "syns-sent" // SYNs that the connect took
)
