package simnet

import "golang.org/x/sys/windows"

// The answers of Winsock: the POSIX names in package syscall are numbers that
// no socket of Windows returns.
const (
	eACCES       = windows.WSAEACCES
	eCONNREFUSED = windows.WSAECONNREFUSED
	eCONNRESET   = windows.WSAECONNRESET
	eHOSTUNREACH = windows.WSAEHOSTUNREACH
	eINVAL       = windows.WSAEINVAL
	eNETUNREACH  = windows.WSAENETUNREACH
	ePIPE        = windows.WSAECONNABORTED // there is no broken pipe
)
