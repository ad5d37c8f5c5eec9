// Package dnscheck looks a name up as the container runtime of a node would, and
// reports what each nameserver said, what the runtime gets, from whom and after
// how long. [Checker] is the entry; its zero value looks at this machine.
//
// A check reads the resolver files in the mount namespace of the runtime, else of
// the host ([SourcesAt]), asks every nameserver for A and AAAA, and replays over
// the answers the rules of Go's resolver, which containerd, CRI-O and the Docker
// engine use (package net of Go 1.26; the file is named in parentheses):
//
//   - The first three nameserver lines with an IP address count; without any,
//     127.0.0.1 and ::1 are asked (dnsconfig_unix.go; resolv.conf(5)).
//   - Each exchange has 5 s, the list is gone through twice and ndots is 1, unless
//     "options" says otherwise. The file is read again when it changes, at most
//     every 5 s (dnsclient_unix.go, tryUpdate).
//   - NXDOMAIN and an answer without records are final. SERVFAIL, REFUSED, other
//     rcodes, timeouts and transport errors lead to the next nameserver
//     (dnsclient_unix.go, tryOneName; RFC 2308).
//   - A and AAAA are asked at once; one of them is enough. A truncated answer is
//     asked for again over TCP (RFC 7766 section 5). A datagram with another ID or
//     question is ignored (checkResponse; RFC 5452): [Exchange.Unmatched].
//   - A name with at least ndots dots is asked as it stands, then with each suffix
//     of the search list; other names the other way round. A trailing dot switches
//     the search list off (nameList).
//   - The hosts file comes first unless nsswitch.conf says otherwise (conf.go).
//
// A runtime built with cgo leaves some lookups to the C library
// ([Settings.LeftToCLibrary]); [Report.CLibrary] says where glibc differs (its
// res_send.c and res_query.c). musl is not modelled.
//
// Side checks explain a failure and never change what the runtime is said to get:
// TCP after a UDP timeout; after SERVFAIL the same with CD (RFC 4035 section 3.2.2)
// and the CNAME chain link by link; the name itself and a random label where a
// search domain answered; the upstreams of a local stub; and Azure's platform
// resolver for a private-link name that comes out public. They are waited for at
// most one second longer.
//
// Not proved: what a pod's resolver, a proxy or musl gets; that anything answers
// at an address, or that a route leads there (package reach); the order in which
// the runtime dials (RFC 6724; here IPv4 stands first). Caches, "options rotate"
// and packet loss make another lookup come out differently. That an address should
// be private is guessed from the names unless [Checker.Expect] says so.
package dnscheck
