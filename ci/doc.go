// Package ci holds what keeps the house in order: tests of the import table, of package state, of what may stand in
// a tracked file, and of the workflow. The script that runs everything is .ci/run; the command that decides about the
// reports of a run is in gate, below.
package ci
