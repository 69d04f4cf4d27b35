// Package ci holds what keeps the house in order: tests of the import table, of package state, and of what may
// stand in a tracked file. The script that runs everything is .ci/run.
package ci
