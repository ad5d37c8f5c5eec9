//go:build unix || windows

package classify

import (
	"errors"
	"runtime"
	"syscall"
)

// errnoFact returns the POSIX name of the operating system's error inside err,
// so that a finding reads the same on every platform; "" if there is none that a
// reader here uses.
func errnoFact(err error) string {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return ""
	}
	if symbol := errnoSymbols[no]; symbol != "" || runtime.GOOS != "windows" {
		return symbol
	}
	return windowsSymbols[no]
}

// errnoSymbols has the numbers of POSIX. On Windows Go invents numbers for these
// names, and may return them.
var errnoSymbols = map[syscall.Errno]string{
	syscall.ECONNREFUSED: "ECONNREFUSED", syscall.ECONNRESET: "ECONNRESET", syscall.ECONNABORTED: "ECONNABORTED", syscall.EPIPE: "EPIPE",
	syscall.ETIMEDOUT: "ETIMEDOUT", syscall.ENETUNREACH: "ENETUNREACH", syscall.EHOSTUNREACH: "EHOSTUNREACH", syscall.ENETDOWN: "ENETDOWN",
	syscall.EHOSTDOWN: "EHOSTDOWN", syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL", syscall.EAFNOSUPPORT: "EAFNOSUPPORT", syscall.EACCES: "EACCES",
	syscall.EPERM: "EPERM", syscall.EINVAL: "EINVAL", syscall.EMFILE: "EMFILE", syscall.ENFILE: "ENFILE", syscall.ENOBUFS: "ENOBUFS",
	syscall.ENOMEM: "ENOMEM", syscall.ENOSPC: "ENOSPC", syscall.EDQUOT: "EDQUOT",
}

// windowsSymbols has the numbers of winsock2.h, five digits, and of winerror.h.
var windowsSymbols = map[syscall.Errno]string{
	10061: "ECONNREFUSED", 1225: "ECONNREFUSED", // WSAECONNREFUSED, ERROR_CONNECTION_REFUSED
	10054: "ECONNRESET", 64: "ECONNRESET", // WSAECONNRESET, ERROR_NETNAME_DELETED
	10053: "ECONNABORTED", 1236: "ECONNABORTED", // WSAECONNABORTED, ERROR_CONNECTION_ABORTED
	109: "EPIPE", 232: "EPIPE", // ERROR_BROKEN_PIPE, ERROR_NO_DATA
	10060: "ETIMEDOUT", 121: "ETIMEDOUT", // WSAETIMEDOUT, ERROR_SEM_TIMEOUT
	10051: "ENETUNREACH", 1231: "ENETUNREACH", // WSAENETUNREACH, ERROR_NETWORK_UNREACHABLE
	10065: "EHOSTUNREACH", 1232: "EHOSTUNREACH", // WSAEHOSTUNREACH, ERROR_HOST_UNREACHABLE
	10050: "ENETDOWN", 10064: "EHOSTDOWN", 10049: "EADDRNOTAVAIL", 10047: "EAFNOSUPPORT", 10022: "EINVAL", 10055: "ENOBUFS",
	10013: "EACCES", 5: "EACCES", // WSAEACCES, ERROR_ACCESS_DENIED
	10024: "EMFILE", 4: "EMFILE", // WSAEMFILE, ERROR_TOO_MANY_OPEN_FILES
	8: "ENOMEM", 112: "ENOSPC", 39: "ENOSPC", // ERROR_NOT_ENOUGH_MEMORY, ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL
}
