package org.putifabsent.hadoop;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Longer and longer pauses, until there is no time left. */
final class Pauses {

  private static final long FIRST_MILLIS = 50;

  private final long end;
  private final long longestMillis;
  private final double growth;
  private double millis = FIRST_MILLIS;

  /** Each is so many times as long as the last one, up to a longest. */
  Pauses(long nanos, double growth, long longestMillis) {
    this.end = System.nanoTime() + nanos;
    this.growth = growth;
    this.longestMillis = longestMillis;
  }

  /** Pauses; false, and at once: there is no time left. */
  boolean goOn() throws InterruptedException {
    if (!goOn((long) ThreadLocalRandom.current().nextDouble(millis / 2, millis))) {
      return false;
    }
    millis = Math.min(growth * millis, longestMillis);
    return true;
  }

  /** Pauses for so long, as nobody is asked after it. */
  boolean goOn(long some) throws InterruptedException {
    long left = end - System.nanoTime();
    if (left <= 0) {
      return false;
    }
    Thread.sleep(Math.min(some, TimeUnit.NANOSECONDS.toMillis(left)));
    return true;
  }
}
