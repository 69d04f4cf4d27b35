package scenarios

import (
	"crypto/rand"
	"encoding/binary"
)

// freshSeed draws a seed, of which half the range is never used: numbers of up to 19 digits are easier to hand on.
func freshSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 1
}
