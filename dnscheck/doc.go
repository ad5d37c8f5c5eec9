// Package dnscheck answers one question: what does the resolver of this node's
// container runtime get when it looks a name up, from whom, and after how long?
//
// A [Checker] reads the node's resolver settings, asks every nameserver on its
// own for A and for AAAA, and then replays over what it saw the rules by which
// the runtime's resolver chooses. Its zero value looks at this machine.
//
// # The rules
//
// containerd, CRI-O and the Docker engine are Go programs. The rules are those
// of Go's own resolver; the file it stands in is named with each (package net of
// Go 1.26).
//
//   - Only the first three nameserver lines count, and only those that hold an IP
//     address (dnsconfig_unix.go; the limit of three is resolv.conf(5), MAXNS).
//     What follows is never asked: dns.ignored-nameserver.
//   - No file, or no usable nameserver line: 127.0.0.1 and ::1 are asked
//     (dnsconfig_unix.go): dns.no-nameserver.
//   - 5 s for each exchange, two rounds over the list, ndots 1, unless "options"
//     says otherwise (dnsconfig_unix.go, resolv.conf(5)).
//   - NXDOMAIN is final, and so is an answer without a record of the type asked
//     for; no further nameserver is asked about that name and type. SERVFAIL,
//     REFUSED, any other code, silence and transport errors move on to the next
//     nameserver (dnsclient_unix.go, tryOneName; RFC 1035 section 4.1.1 for the
//     codes, RFC 2308 for the two kinds of negative answer).
//   - A and AAAA are asked at once and what comes is merged; one of the two is
//     enough. The lookup lasts as long as the slower of both.
//   - A truncated answer is asked for again over TCP (RFC 7766 section 5). When
//     TCP fails there, that nameserver has failed.
//   - A name with at least ndots dots is asked as it stands first, then with each
//     suffix of the search list; another one the other way round. The next name
//     is tried whenever the one before gave no address, for whatever reason; a
//     trailing dot switches the search off (dnsclient_unix.go, nameList).
//   - The hosts file comes first unless nsswitch.conf says otherwise; without
//     that file, or without a "hosts" line in it, the order is files, dns (conf.go,
//     nsswitch.conf(5)).
//
// # What a report says
//
// An address from the hosts file never makes the report clean: DNS is asked all
// the same, and dns.hosts-override says whether it agrees. A nameserver that
// fails is a warning as long as the runtime gets its answer from another, and a
// failure only when the runtime would get nothing.
//
// Every nameserver is asked until it answers or until [Checker.Limit] ends, also
// those that the runtime would not reach, because a later pull may need them.
// A datagram that got no answer for 2 s is sent once more, since a single lost
// packet says nothing of a nameserver.
//
// # What is not proved
//
//   - The settings are those of the file tree that was given. A pod has its own
//     resolv.conf, written by the kubelet: what a pod's resolver answers says
//     nothing about the node, whose runtime does the pull.
//   - A nameserver on 127.0.0.0/8 or ::1 is usually a local forwarder
//     (systemd-resolved, dnsmasq). Its answer is what the runtime gets; who stands
//     behind it is not shown here.
//   - A runtime built with cgo may hand the lookup to the C library when
//     nsswitch.conf or resolv.conf holds something that Go does not know (mdns,
//     resolve, nis). The rules above are then close, not exact.
//   - The proxy of a pull resolves names itself; nothing here says what it gets.
//   - An address is what DNS says. Whether anything answers there, and whether the
//     node has a route or even that address family, is the matter of package
//     reach. The runtime also orders the addresses by its routes (RFC 6724); here
//     they stand IPv4 first, each family in the order of the answer.
//   - One moment was looked at. Caches, rotation ("options rotate") and loss make
//     another lookup come out differently.
package dnscheck
