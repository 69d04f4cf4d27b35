package postgres

// LockSeed is the seed of the default table's advisory locks in a schema.
func LockSeed(schema string) int64 { return Options{Schema: schema}.withDefaults().lockSeed() }

// ClaimSQL is the claim's statement in a schema, with the default names.
func ClaimSQL(schema string) string {
	return newStatements(Options{Schema: schema}.withDefaults()).claim
}

// PruneSQL is the prune's statement in a schema, with the default names.
func PruneSQL(schema string) string {
	return newStatements(Options{Schema: schema}.withDefaults()).prune
}

// PruneInboxSQL is the inbox's, likewise.
func PruneInboxSQL(schema string) string {
	return newInboxStatements(Options{Schema: schema}.withDefaults()).prune
}

// PairStatements are the statements of a claim and a completion, in order.
func PairStatements(o Options) []string {
	s := newStatements(o.withDefaults())
	return []string{isolationSQL, s.claim, s.reread, isolationSQL, s.complete}
}
