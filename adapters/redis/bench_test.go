package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkBeginComplete is claim and complete of fresh messages on a real Redis: one operation is two script calls.
// To compare within the same minute, start a Redis, name it in EFFECTONCE_REDIS_URL, and run the same two scripts on
// keys as long, from as many clients, on an empty database (R records are claimed first, so that nearly every
// completion writes):
//
//	P=6379 C=8 B='effectonce:{5:bench:0}:'
//	S=$(redis-cli -p $P -x SCRIPT LOAD < begin.lua)
//	F=$(redis-cli -p $P -x SCRIPT LOAD < complete.lua)
//	redis-benchmark -p $P -c $C -n 20000 -r 100000000 -q \
//	    EVALSHA $S 2 "${B}r:1:c__rand_int__" "${B}c" 1714979289000000 1714979299000000 '' 16 0
//	redis-cli -p $P EVAL "for i = 0, 200000 do redis.call('HSET', ARGV[1]..string.format('%012d', i),
//	    'state', 'PROCESSING', 'attempts', '1', 'lease', '1714979299000000', 'updated', '1714979289000000',
//	    'token', '16', 'nonce', '') end" 0 "${B}r:1:c"
//	redis-benchmark -p $P -c $C -n 20000 -r 200000 -q \
//	    EVALSHA $F 2 "${B}r:1:c__rand_int__" "${B}d" 1714979289000000
//
// The figure to set beside calls/s is the harmonic mean of the two rates.
func BenchmarkBeginComplete(b *testing.B) {
	url := realRedis.Need(b).DSN()
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			s := open(b, url, Options{Namespace: freshNamespace(b, url), PoolSize: clients})
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := beginComplete(s, strconv.FormatInt(i, 10)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func beginComplete(s *Store, id string) error {
	ctx := context.Background()
	if _, _, err := s.Begin(ctx, "c", id, epoch, 10*time.Second); err != nil {
		return err
	}
	return s.Complete(ctx, "c", id, epoch)
}
