package scenarios

// WithoutNamed leaves out the plans that every run begins with: what the generator is to find it has to draw.
func WithoutNamed() Option { return func(c *config) { c.unnamed = true } }
