package reach

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// posixNames gives the answers of Winsock, of ConnectEx (which answers with
// Win32 codes) and of Go itself (which invented values for the POSIX names) the
// names that they have everywhere else, so that a reader of reports knows one
// set of names.
var posixNames = map[syscall.Errno]string{
	windows.ERROR_ACCESS_DENIED:       "EACCES",
	windows.WSAEACCES:                 "EACCES",
	syscall.EACCES:                    "EACCES",
	windows.WSAEADDRINUSE:             "EADDRINUSE",
	syscall.EADDRINUSE:                "EADDRINUSE",
	windows.WSAEADDRNOTAVAIL:          "EADDRNOTAVAIL",
	syscall.EADDRNOTAVAIL:             "EADDRNOTAVAIL",
	windows.WSAEAFNOSUPPORT:           "EAFNOSUPPORT",
	syscall.EAFNOSUPPORT:              "EAFNOSUPPORT",
	windows.ERROR_CONNECTION_ABORTED:  "ECONNABORTED",
	windows.WSAECONNABORTED:           "ECONNABORTED",
	syscall.ECONNABORTED:              "ECONNABORTED",
	windows.ERROR_CONNECTION_REFUSED:  "ECONNREFUSED",
	windows.WSAECONNREFUSED:           "ECONNREFUSED",
	syscall.ECONNREFUSED:              "ECONNREFUSED",
	windows.ERROR_NETNAME_DELETED:     "ECONNRESET",
	windows.WSAECONNRESET:             "ECONNRESET",
	syscall.ECONNRESET:                "ECONNRESET",
	windows.WSAEHOSTDOWN:              "EHOSTDOWN",
	syscall.EHOSTDOWN:                 "EHOSTDOWN",
	windows.ERROR_HOST_UNREACHABLE:    "EHOSTUNREACH",
	windows.WSAEHOSTUNREACH:           "EHOSTUNREACH",
	syscall.EHOSTUNREACH:              "EHOSTUNREACH",
	windows.WSAEINVAL:                 "EINVAL",
	syscall.EINVAL:                    "EINVAL",
	windows.WSAEMFILE:                 "EMFILE",
	syscall.EMFILE:                    "EMFILE",
	syscall.ENFILE:                    "ENFILE",
	windows.WSAENETDOWN:               "ENETDOWN",
	syscall.ENETDOWN:                  "ENETDOWN",
	windows.ERROR_NETWORK_UNREACHABLE: "ENETUNREACH",
	windows.WSAENETUNREACH:            "ENETUNREACH",
	syscall.ENETUNREACH:               "ENETUNREACH",
	windows.WSAENOBUFS:                "ENOBUFS",
	syscall.ENOBUFS:                   "ENOBUFS",
	syscall.EPERM:                     "EPERM",
	windows.ERROR_SEM_TIMEOUT:         "ETIMEDOUT",
	windows.WSAETIMEDOUT:              "ETIMEDOUT",
	syscall.ETIMEDOUT:                 "ETIMEDOUT",
}

// errnoName returns the POSIX name of errno, "" for an unknown number.
func errnoName(errno syscall.Errno) string { return posixNames[errno] }
