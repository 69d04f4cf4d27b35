// Package outside holds tests of a user's first hour: the README's files in a module of their own, a copied template, a
// program that is no test. They compile modules, which takes longer than what they show.
package outside
