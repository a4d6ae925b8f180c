// Package tidy keeps the repository in the shape that its map promises. It has
// tests only, and runs with all the others.
//
// A rule is a pure function from a tree of files to its faults, and a fault says
// where, what, and what to do. TestTidy holds the repository against every rule.
// TestRules holds each rule against small trees, so that a rule that finds
// nothing is known to look.
//
//	tree_test.go      the files of the repository, parsed
//	rules_test.go     the list of rules, and the two tests
//	arrows_test.go    who may import whom inside this module
//	imports_test.go   who may import what from outside
//	lengths_test.go   how long and how deep code may be, and the exceptions
//	docs_test.go      names of packages, and what must be documented
//	habits_test.go    what must not be written at all, nor stand in the root
//	globals_test.go   no changing state in package variables
//
// specimens_test.go has the small trees.
package tidy
