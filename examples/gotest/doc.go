// Package gotest shows how a test suite asks first whether its image can be pulled,
// so that a broken pull is told as what it is and not as two hundred timeouts.
//
// All of it stands in the test files: smoke_test.go is what to copy.
package gotest
