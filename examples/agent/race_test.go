//go:build race

package main

func init() { withRace = true }
