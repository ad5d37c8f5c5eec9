package reach

// Flow is what the kernel counted of one TCP connection (TCP_INFO). Linux only;
// zero elsewhere.
type Flow struct {
	// SentBytes counts payload, without repeats; AckedBytes what the peer has
	// confirmed of it; ReceivedBytes what arrived in order.
	SentBytes     int64 `json:"sentBytes"`
	AckedBytes    int64 `json:"ackedBytes"`
	ReceivedBytes int64 `json:"receivedBytes"`
	// Retransmits counts repeated segments, SYNs included.
	Retransmits int `json:"retransmits"`
	// Segment is the largest payload of one own segment, in bytes.
	Segment int `json:"segment,omitempty"`
	// PathMTU, in bytes, is what the kernel believes of the path.
	PathMTU int `json:"pathMtu,omitempty"`
	// OutOfOrder counts segments that arrived while an earlier one was missing:
	// the sign of a large segment that got lost before a small one.
	OutOfOrder int `json:"outOfOrder,omitempty"`

	roundTrip int64 // smoothed, in microseconds
}
