//go:build !windows

package simnet

import "syscall"

// The answers of the kernel.
const (
	eACCES       = syscall.EACCES
	eCONNREFUSED = syscall.ECONNREFUSED
	eCONNRESET   = syscall.ECONNRESET
	eHOSTUNREACH = syscall.EHOSTUNREACH
	eINVAL       = syscall.EINVAL
	eNETUNREACH  = syscall.ENETUNREACH
	ePIPE        = syscall.EPIPE
)
