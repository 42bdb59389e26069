package org.putifabsent.hadoop;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Longer and longer pauses, until there is no time left. */
final class Pauses {

  private static final long FIRST_MILLIS = 50;

  private final long end;
  private final long longestMillis;
  private long millis = FIRST_MILLIS;

  Pauses(long nanos, long longestMillis) {
    this.end = System.nanoTime() + nanos;
    this.longestMillis = longestMillis;
  }

  /** Pauses; false, and at once: there is no time left. */
  boolean goOn() throws InterruptedException {
    long left = end - System.nanoTime();
    if (left <= 0) {
      return false;
    }
    long some = ThreadLocalRandom.current().nextLong(millis / 2, millis);
    Thread.sleep(Math.min(some, TimeUnit.NANOSECONDS.toMillis(left)));
    millis = Math.min(2 * millis, longestMillis);
    return true;
  }
}
