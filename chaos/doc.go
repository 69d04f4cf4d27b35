// Package chaos breaks things on a schedule that somebody else drew: it holds no random source of its own, so
// that the same plan breaks the same request every time. It reports what it did, and when, as exactly as it can
// be known, since a verdict is built on that.
package chaos
