package checker

// AllReasons lists what is tried as a reason, for the tests.
var AllReasons = reasons
