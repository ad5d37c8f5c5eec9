//go:build windows

package classify

import "syscall"

// errnoSymbol returns the POSIX name of a Winsock or Win32 code, so that a
// finding reads the same on every platform; "" for a code that no reader here
// uses. The numbers are those of winsock2.h and winerror.h. The syscall package
// also has invented values under the POSIX names, which Go itself may return.
func errnoSymbol(no syscall.Errno) string {
	switch no {
	case 10061, 1225, syscall.ECONNREFUSED: // WSAECONNREFUSED, ERROR_CONNECTION_REFUSED
		return "ECONNREFUSED"
	case 10054, 64, syscall.ECONNRESET: // WSAECONNRESET, ERROR_NETNAME_DELETED
		return "ECONNRESET"
	case 10053, 1236, syscall.ECONNABORTED: // WSAECONNABORTED, ERROR_CONNECTION_ABORTED
		return "ECONNABORTED"
	case 109, 232, syscall.EPIPE: // ERROR_BROKEN_PIPE, ERROR_NO_DATA
		return "EPIPE"
	case 10060, 121, syscall.ETIMEDOUT: // WSAETIMEDOUT, ERROR_SEM_TIMEOUT
		return "ETIMEDOUT"
	case 10051, 1231, syscall.ENETUNREACH: // WSAENETUNREACH, ERROR_NETWORK_UNREACHABLE
		return "ENETUNREACH"
	case 10065, 1232, syscall.EHOSTUNREACH: // WSAEHOSTUNREACH, ERROR_HOST_UNREACHABLE
		return "EHOSTUNREACH"
	case 10050, syscall.ENETDOWN: // WSAENETDOWN
		return "ENETDOWN"
	case 10064, syscall.EHOSTDOWN: // WSAEHOSTDOWN
		return "EHOSTDOWN"
	case 10049, syscall.EADDRNOTAVAIL: // WSAEADDRNOTAVAIL
		return "EADDRNOTAVAIL"
	case 10047, syscall.EAFNOSUPPORT: // WSAEAFNOSUPPORT
		return "EAFNOSUPPORT"
	case 10013, 5, syscall.EACCES: // WSAEACCES, ERROR_ACCESS_DENIED
		return "EACCES"
	case syscall.EPERM:
		return "EPERM"
	case 10022, syscall.EINVAL: // WSAEINVAL
		return "EINVAL"
	case 10024, 4, syscall.EMFILE: // WSAEMFILE, ERROR_TOO_MANY_OPEN_FILES
		return "EMFILE"
	case syscall.ENFILE:
		return "ENFILE"
	case 10055, syscall.ENOBUFS: // WSAENOBUFS
		return "ENOBUFS"
	case 8, syscall.ENOMEM: // ERROR_NOT_ENOUGH_MEMORY
		return "ENOMEM"
	case 112, 39, syscall.ENOSPC: // ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL
		return "ENOSPC"
	case syscall.EDQUOT:
		return "EDQUOT"
	}
	return ""
}
